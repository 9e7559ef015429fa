"""What earlier commits had names what to use instead."""

from __future__ import annotations

import shlex

from tests.cli.runner import tfgpu
from tests.tables import each
from tfgpu_doctor.cli.options import SUCCESSORS

GONE = (
    *(
        "bench memory",
        "bench matpow --against x",
        "bench cnn --history x",
        "bench matpow --sweep 64,128",
        "bench cnn --collectives ring",
    ),
    *("matrix container x", "matrix jetpack", "matrix driver 470", "matrix python 3.12", "completion bash"),
    *(
        "install x --repair",
        "check --resolve x",
        "fleet collect --here",
        "compare a b --history x",
        "fleet x --baseline y",
        "smoke --repeat 2",
        "smoke --virtual-gpus 2",
    ),
)


@each("line", GONE)
def test_what_is_gone_names_its_successor(line: str) -> None:
    done = tfgpu(*shlex.split(line))
    (name,) = (word for word in line.split() if word in SUCCESSORS)
    assert done.returncode == 2 and f"{name} was removed: {SUCCESSORS[name]}." in " ".join(done.stderr.split()), done


def test_every_successor_is_tried() -> None:
    assert {word for line in GONE for word in line.split() if word in SUCCESSORS} == SUCCESSORS.keys()
