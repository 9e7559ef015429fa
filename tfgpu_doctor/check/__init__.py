"""`tfgpu check`: manifests + a target + the matrix → findings. Pure."""
