"""A module that has nothing of TensorFlow, not even a version."""
