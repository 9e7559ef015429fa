"""Workloads, a file each. They run inside the worker and import nothing of this package."""
