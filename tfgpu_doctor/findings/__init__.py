"""Findings: what can be wrong, the signs by which it is recognised, and the fixes; a file for each layer. Pure."""
