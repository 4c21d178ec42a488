"""Write and read the records of runs, the build history and the reports."""
