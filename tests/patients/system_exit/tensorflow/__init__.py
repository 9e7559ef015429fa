"""Calls sys.exit() on import."""

import sys

sys.exit("no licence found")
