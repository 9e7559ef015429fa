"""The classic: a CUDA library that is not there."""

raise ImportError("libcudart.so.11.0: cannot open shared object file: No such file or directory")
