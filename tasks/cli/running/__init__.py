"""The doit side of the command line: tasks, execution of stages, reporter and database."""
