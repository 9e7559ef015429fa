"""The time that redaction takes grows with the text, not faster: four times the text, about four times the time.

Measured in time of the processor, side by side; 6 leaves room for other programs, and quadratic would be 16.
"""

from __future__ import annotations

import re
import time

from tests.guard import guarded
from tfgpu_doctor.redact.redaction import LONGEST, KnownNames, redact

MOST = 6
# each of them begins, over and over, what an expression reads, and ends it never, or at once
UNITS = """/,a/,C:\\x ,:,1.,a@,a@b:,a-,_,token ,password is ,--token ,eyJaaaaaaaa-,[a@b ,~a/,\\\\abc\\d,//a1/
a1:/,ssh ,mysql -p,Cookie: ,'/a ,aB3,GPU-a,fe80::,0.0.0.0,+1 2,user ,a-7d9f8b6c5d-,a.b.com/,https://a/?token=a&
\\\\"token,<user,kubectl """


def seconds(record: object) -> float:
    start = time.process_time()
    redact(record)
    return time.process_time() - start


def ratio(small: object, large: object) -> float:
    """Of the times, the best of up to three tries."""
    tries = (seconds(large) / max(seconds(small), 1e-3) for _ in range(3))
    best = next(tries)
    return best if best < MOST else min(best, *tries)


def test_names_that_all_differ() -> None:
    for line in (
        "/home/a{0}/b{0}x",
        "hostname: node{0}x",
        "ada{0}@node{0}x:~/plan{0}x$ ls",
        "GPU-{0:08x}-aaaa-bbbb-cccc-0123456789ab",
    ):
        small, large = (tuple(line.format(number) for number in range(count)) for count in (300, 1200))
        assert ratio(small, large) < MOST, line
    small, large = (" ".join(f"/home/a{number}/b{number}x" for number in range(count)) for count in (300, 1200))
    assert ratio(small, large) < MOST


def test_lines_made_to_keep_an_expression_busy() -> None:
    for unit in re.split("[,\n]", UNITS):
        with guarded(3.0, unit):  # a twentieth is enough
            redact(unit * (30_000 // len(unit)) + "!")


def test_names_that_begin_alike() -> None:
    """A place in the text is compared with names of LONGEST characters at most, of as many lengths."""
    for names in (["a." * (10 * LONGEST) + "b"], ["a." + "b" * length for length in range(2_000)]):
        with guarded(3.0, "names that begin alike"):
            assert "a" in KnownNames((name, "path") for name in names).replaced(
                "a." * 30_000, lambda kind, value: value
            )
