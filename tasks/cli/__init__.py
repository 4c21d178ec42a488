"""The command line: commands, help, completion, and the adapter to doit."""
