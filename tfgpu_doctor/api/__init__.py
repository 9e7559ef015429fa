"""The Python API: a typed function for each command, which returns its result instead of printing it."""
