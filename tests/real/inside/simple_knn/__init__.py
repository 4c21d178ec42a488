"""Stands in for simple-knn, on the CPU."""
