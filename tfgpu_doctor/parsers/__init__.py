"""Pure text → facts; shared by the probes and, later, by pasted text."""
