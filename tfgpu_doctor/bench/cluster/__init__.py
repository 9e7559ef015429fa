"""Several machines that train together."""
