"""Tasks that tell a person something; none of them changes what is built."""
