"""Reports without what is private. Pure."""
