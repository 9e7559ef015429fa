"""A user's own script that hides the package."""

__version__ = "my first network"
