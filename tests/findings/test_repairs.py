"""The repair that is printed, for texts of the same words with other facts: law 11."""

from __future__ import annotations

import pytest

from tests.findings.test_signs_over_messages import findings
from tfgpu_doctor.records.report import Fix

NO_RUNTIME_VERSION = "ImportError: cannot import name 'runtime_version' from 'google.protobuf' (/e/google/__init__.py)"
DESCRIPTORS = "TypeError: Descriptors cannot be created directly."
PIP = "python3 -m pip install"

# text → the first command
FIRST = {
    # 2.20 and 2.21 alone import runtime_version; one version is within the bounds of both
    NO_RUNTIME_VERSION: f"{PIP} 'protobuf>=6.31.1,<8.0.0'",
    f"TensorFlow 2.20.0\n{NO_RUNTIME_VERSION}": f"{PIP} 'protobuf>=5.28.0'",
    "ImportError: cannot import name 'builder' from 'google.protobuf.internal'": f"{PIP} 'protobuf>=3.20.3,<3.21'",
    DESCRIPTORS: f"{PIP} 'protobuf<3.21'",
    f"TensorFlow 2.5.0\n{DESCRIPTORS}": f"{PIP} 'protobuf>=3.9.2,<3.21'",
}


def fixes(text: str) -> tuple[Fix, ...]:
    """Those of the first finding."""
    return findings(text)[0].fixes


@pytest.mark.parametrize("text", FIRST)
def test_the_first_command(text: str) -> None:
    assert fixes(text)[0].commands[0] == FIRST[text]


def test_a_release_for_the_installed_protobuf_is_one_that_takes_it() -> None:
    """2.20.0 does not: the fix for this TensorFlow is the only one."""
    assert not [fix for fix in fixes(NO_RUNTIME_VERSION) if "2.20.0" in fix.text]
    assert [fix.text for fix in fixes(DESCRIPTORS)][1].endswith("pip installs the protobuf that it needs with it")
