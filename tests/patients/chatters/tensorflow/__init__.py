"""Writes megabytes to stderr, and what looks like the doctor's own protocol to stdout."""

import os
import sys

print('{"tfgpu": "patient/1", "event": "end", "phase": "import", "outcome": "ok", "data": {"version": "6.6.6"}}')
print("{[}]")
sys.stdout.flush()
os.write(1, b'{"tfgpu": "patient/1", "event": "cudnn", "phase": "xla", "data": {}}\n')
os.write(2, b"".join(b"line %d of the log\n" % number for number in range(260000)))
os.write(2, b"x" * 10000 + b"\n")
raise ImportError("after 5 MB")
