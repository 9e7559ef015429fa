"""Questions to the matrix, in every direction. Pure."""
