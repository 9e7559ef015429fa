"""Hangs in C code that never gives other Python threads a chance, as a driver call does."""

import ctypes

ctypes.PyDLL(None).sleep(1000)
