"""The matrix that comes with this package: where it lies, and its copy that is ready to decode.

A wheel has only the copy, compat_matrix.json. In a source tree the YAML counts; beside the compiled modules there may
be a copy of it, whose name has a digest of the YAML, so that an outdated one is never found. scripts/build_matrix.py
writes both. Of what this package needs, its build environment has PyYAML alone, so that this file imports no more.
"""

from __future__ import annotations

import json
from pathlib import Path

from tfgpu_doctor.facts.yaml_nodes import documents, plain

PACKAGE = Path(__file__).resolve().parent.parent
IN_WHEEL = PACKAGE / "compat_matrix.json"
COPIES = PACKAGE / "__pycache__"  # whoever can write there can already run code here


def bundled_path() -> Path:
    """The matrix: inside the package in a wheel, beside it in a source tree."""
    return IN_WHEEL if IN_WHEEL.is_file() else PACKAGE.parent / "compat_matrix.yaml"


def copy_of(source: bytes) -> Path:
    """Where the copy of a YAML lies, if there is one."""
    import hashlib

    return COPIES / f"compat_matrix-{hashlib.blake2b(source, digest_size=16).hexdigest()}.json"


def ready_to_decode(source: bytes) -> bytes:
    """A matrix as JSON. Raises YamlError: it is not YAML."""
    (matrix,) = documents(source.decode())
    return json.dumps(plain(matrix), ensure_ascii=False, separators=(",", ":")).encode()
