"""Drives the worker processes of a benchmark and samples them in turns."""
