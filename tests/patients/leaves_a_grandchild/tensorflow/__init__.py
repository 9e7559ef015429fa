"""Leaves a process behind that keeps every pipe open."""

import os
import time

pid = os.fork()
if pid == 0:
    time.sleep(1000)
with open(os.environ["PATIENT_PIDFILE"], "w") as file:
    file.write(str(pid))
os._exit(7)
