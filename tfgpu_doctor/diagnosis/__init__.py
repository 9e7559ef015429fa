"""Which findings hold: the engine that runs the signs and puts root causes first. Pure."""
