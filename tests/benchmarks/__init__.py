"""What is promised in figures, measured: `python -m tests.benchmarks [NAME…] --json FILE`."""
