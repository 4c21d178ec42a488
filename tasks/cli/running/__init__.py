"""Connect torchyard to doit: tasks, execution of stages, reporter and database."""
