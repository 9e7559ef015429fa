"""Lines of pasted text, what they were wrapped in, and what the reporter stated in them. Pure."""
