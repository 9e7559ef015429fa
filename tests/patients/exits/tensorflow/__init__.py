"""Ends the process at once, as if all were well."""

import os

os._exit(0)
