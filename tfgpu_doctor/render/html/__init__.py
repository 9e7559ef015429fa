"""Pages that need nothing else: bench results and reports."""
