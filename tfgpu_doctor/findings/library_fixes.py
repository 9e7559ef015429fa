"""Fixes that the findings about CUDA and cuDNN share."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable

from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.inputs import fetch
from tfgpu_doctor.findings.libraries import good_candidate
from tfgpu_doctor.matrix.compatibility import known_capabilities
from tfgpu_doctor.matrix.loader import Release
from tfgpu_doctor.records.facts import Candidate, Soname, Unknown, value_or
from tfgpu_doctor.records.report import Fix


def install_libraries(context: Context) -> tuple[Fix, ...]:
    """Install the CUDA libraries of this TensorFlow; another release where it has no such extra, or is unknown."""
    best = context.remedies.reinstall_best("it installs its CUDA libraries from pip")
    release: Release | None = value_or(fetch("gpu_release", context), None)
    if release is None:
        return best
    python = value_or(context.facts.python.version, None)
    capabilities = known_capabilities(context.facts)
    issues = context.matrix.issues_for(release, python=python, compute_capabilities=capabilities, extra=True)
    broken = any(issue.severity == "error" and issue.affects == "run" for issue in issues)
    if release.extra and not broken:
        text = f"Install the CUDA libraries of TensorFlow {release.version} from pip"
        return (Fix(text=text, commands=context.remedies.install_tensorflow(release)),)
    if release.extra:
        return best
    text = f"Or keep {release.version}, in an environment of its own with CUDA {release.cuda} and cuDNN {release.cudnn}"
    return (*best, *context.remedies.with_cuda_beside(release, text))


def tell_apart(context: Context) -> Fix:
    """How to see whether a library is missing, of another version, or not on the loader path."""
    sonames = context.facts.loader.sonames
    look = (sonames.ask,) if isinstance(sonames, Unknown) and sonames.ask else ()
    return Fix(
        text="To decide whether it is missing, of another version or not on the loader path, run one of these there",
        commands=("tfgpu doctor", *look),
    )


def fix_path(context: Context, libraries: tuple[Soname, ...]) -> tuple[Fix, ...]:
    """Move damaged files away; where there are none, add the folders of the good ones to the loader path."""
    quote = context.remedies.quote
    blocking = [one.path for library in libraries for one in library.candidates if one.is_in_the_way]
    if blocking:
        moves = tuple(f"mv {quote(path)} {quote(path + '.broken')}" for path in blocking)
        return (Fix(text="Rename the damaged file, so that the loader does not find it", commands=moves),)
    folders = dict.fromkeys(posixpath.dirname(one.path) for one in map(good_candidate, libraries) if one)
    return (
        Fix(
            text="Add their folders to the loader path before Python starts (inside Python it is too late)",
            commands=(f"export LD_LIBRARY_PATH={quote(':'.join(folders))}${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}",),
        ),
    )


def off_library_path(context: Context, files: Iterable[Candidate]) -> tuple[Fix, ...]:
    """Remove the folders of these files from LD_LIBRARY_PATH."""
    folders = {posixpath.dirname(one.path) for one in files if one.via == "LD_LIBRARY_PATH"}
    if not folders:
        return ()
    value = value_or(context.facts.variables, {}).get("LD_LIBRARY_PATH", "")
    kept = ":".join(part for part in value.split(":") if part and part.rstrip("/") not in folders)
    command = f"export LD_LIBRARY_PATH={context.remedies.quote(kept)}" if kept else "unset LD_LIBRARY_PATH"
    return (Fix(text="Remove that folder from LD_LIBRARY_PATH, which comes first", commands=(command,)),)
