"""Two bench results beside each other."""
