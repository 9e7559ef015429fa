"""The charts of a bench result as SVG; the numbers that they show stand in tables beside them."""
