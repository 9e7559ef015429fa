"""What each kind of result comes to: a page for people, checks for CI, metrics for monitoring (render/shapes.py)."""
