"""tfgpu in Jupyter: `%load_ext tfgpu_doctor`, then `%tfgpu doctor`."""
