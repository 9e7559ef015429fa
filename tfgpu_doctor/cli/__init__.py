"""The command line: options, one call, render, exit code."""
