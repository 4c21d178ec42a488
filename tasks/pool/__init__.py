"""How many jobs may run at once, and whose compilers ran out of memory. Pure."""
