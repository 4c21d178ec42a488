"""What `doit help`, `doit list` and the completion tell: each task once, here. Pure."""
