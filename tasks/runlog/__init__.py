"""Record each run, its history and its report."""
