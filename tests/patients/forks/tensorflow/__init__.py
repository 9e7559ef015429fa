"""An import that forks a process which claims, on every file descriptor that it has, to be the process under test."""

import contextlib
import os

DATA = '{"version": "6.6.6", "file": null, "problem": null}'
FORGED = '\n{"tfgpu": "patient/1", "event": "end", "phase": "import", "outcome": "ok", "data": %s}\n' % DATA

child = os.fork()
if not child:
    for descriptor in range(64):
        with contextlib.suppress(OSError):
            os.write(descriptor, FORGED.encode())
    os._exit(0)
os.waitpid(child, 0)
raise ImportError("of the parent")
