"""Honest measurement: workloads in worker processes, statistics, verification, results."""
