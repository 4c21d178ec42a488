"""Run Ninja: the number of jobs, the jobserver, memory limits, progress and estimates."""
