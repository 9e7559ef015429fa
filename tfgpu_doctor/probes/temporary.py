"""A temporary folder for one child: TensorFlow leaves files of AutoGraph there when it is killed or ends at once."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress


@contextmanager
def temporary_folder(environ: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """The variables for a child, with a folder of its own for temporary files, which is removed in the end.

    On a machine that has no place for one, nothing changes.
    """
    with ExitStack() as stack:
        own: dict[str, str] = {}
        with suppress(OSError):
            folder = tempfile.TemporaryDirectory(prefix="tfgpu-", ignore_cleanup_errors=True)
            own = dict.fromkeys(("TMPDIR", "TEMP", "TMP"), stack.enter_context(folder))  # the last two on Windows
        yield {**environ, **own}
