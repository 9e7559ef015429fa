"""The environment variables that matter to TensorFlow on a GPU, as this process has them."""

from __future__ import annotations

import os
from collections.abc import Mapping

from tfgpu_doctor.records.environment_variables import reason
from tfgpu_doctor.records.facts import Fact, Known

LONGEST = 4096  # characters kept of a value


def examine(environ: Mapping[str, str] | None = None) -> Fact[dict[str, str]]:
    """The variables that matter and are set (an empty value is one too), by name."""
    environ = os.environ if environ is None else environ
    found = {name: environ[name][:LONGEST] for name in sorted(environ) if reason(name) is not None}
    return Known(found, "environment")
