"""Run Ninja: how many jobs, the jobserver, the memory they may use, progress and estimate."""
