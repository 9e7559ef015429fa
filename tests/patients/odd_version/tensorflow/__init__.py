"""A version that is no text."""

__version__ = (2, 1)
