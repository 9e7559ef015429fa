"""An import that never ends."""

import time


def wait_for_ever():
    while True:
        time.sleep(1000)


wait_for_ever()
