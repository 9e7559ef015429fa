"""The output of other programs (nvidia-smi, pip, conda, nvcc, ldconfig ...), a file for each. Pure."""
