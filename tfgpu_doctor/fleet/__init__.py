"""Many nodes' reports as one picture: what the nodes share, which differ and in what, grouped by cause."""
