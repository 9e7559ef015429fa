"""tfgpu: gets TensorFlow to run, and run fast, on NVIDIA GPUs."""

__version__ = "0.1.0"
