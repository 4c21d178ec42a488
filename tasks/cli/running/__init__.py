"""What doit knows as tasks, and how a stage of them is executed, reported and ended."""
