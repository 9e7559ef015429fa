"""Raises a message with a path that is no UTF-8, and writes such bytes as well."""

import os

os.write(2, b"cannot open /srv/\xff\xfe\n")
raise ImportError("cannot open /srv/" + os.fsdecode(b"\xff\xfe"))
