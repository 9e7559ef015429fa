"""An import that takes PATIENT_SECONDS, in which it does what PATIENT_WORK says."""

import os
import subprocess
import sys
import time

WORK = os.environ["PATIENT_WORK"]
END = time.time() + float(os.environ["PATIENT_SECONDS"])
BURN = "import time\nend = %r\nwhile time.time() < end: pass" % END

if WORK == "burns":
    exec(BURN)
elif WORK == "waits for a child that burns":
    subprocess.call([sys.executable, "-S", "-c", BURN])
elif WORK == "reads":
    with open("/dev/zero", "rb", buffering=0) as file:
        while time.time() < END:
            file.read(1)
            time.sleep(0.1)
else:
    time.sleep(END - time.time())

__version__ = "2.99.0"
