"""Raises what only a user should."""

raise KeyboardInterrupt
