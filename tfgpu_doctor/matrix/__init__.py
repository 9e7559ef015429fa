"""The compatibility matrix: its schema, its loader, overlays, lint, and names of GPUs."""
