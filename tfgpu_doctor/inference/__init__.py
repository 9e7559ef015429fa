"""Parsed text and messages become the same facts that the probes fill. Pure."""
