"""The record of each run, its history and its report."""
