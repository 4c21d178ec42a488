"""Tasks for people: what is set, what is here, what can be removed."""
