"""Makes an environment by a plan, proves that it works, or leaves nothing behind."""
