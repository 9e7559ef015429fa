"""deploy/docker: the Dockerfile by its own grammar, its commands in an environment made by its RUN lines."""

from __future__ import annotations

import fnmatch
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.lab import Lab
from tfgpu_doctor.cli import COMMANDS

ROOT = Path(__file__).parents[2]
FILE = ROOT / "deploy/docker/Dockerfile"
# https://docs.docker.com/reference/dockerfile/
KNOWN = {"ADD", "ARG", "CMD", "COPY", "ENTRYPOINT", "ENV", "EXPOSE", "FROM", "HEALTHCHECK", "LABEL", "ONBUILD"}
KNOWN |= {"RUN", "SHELL", "STOPSIGNAL", "USER", "VOLUME", "WORKDIR"}
OPTIONS = {
    "HEALTHCHECK": {"interval", "timeout", "start-period", "start-interval", "retries"},
    "COPY": {"from", "chown", "chmod"},
}
H100 = {"cuinit": 0, "name": "NVIDIA H100 80GB HBM3", "cc": "9.0", "driver": "570.86.15", "cuda_version": 12080}
ROOM = 12 << 30  # bytes


class Instruction(NamedTuple):
    """One instruction: COPY --from=build a b → ("COPY", {"from": "build"}, "a b")."""

    name: str
    options: dict[str, str]
    rest: str


def instructions() -> list[Instruction]:
    lines = [one for one in FILE.read_text(encoding="utf-8").splitlines() if one.strip() and not one.startswith("#")]
    found = []
    for text in re.sub(r"\\\n\s*", "", "\n".join(lines)).splitlines():
        name, options, rest = re.fullmatch(r"([A-Z]+)((?: --[a-z-]+=\S+)*) (.+)", text).groups()  # type: ignore[union-attr]
        found.append(Instruction(name, dict(re.findall(r"--([a-z-]+)=(\S+)", options)), rest))
    return found


ALL = instructions()
STAGES = [n for n, one in enumerate(ALL) if one.name == "FROM"]
FINAL = ALL[STAGES[-1] :]


def only(name: str) -> str:
    (found,) = (one.rest for one in FINAL if one.name == name)
    return found


def context() -> list[str]:
    """The files of the repository that .dockerignore lets through."""
    ignored = (FILE.parent / "Dockerfile.dockerignore").read_text(encoding="utf-8").split()
    assert ignored[0] == "*"
    kept = [one[1:] for one in ignored if one.startswith("!")]
    assert all((ROOT / one).exists() for one in kept)
    files = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    return [one for one in files if any(one == entry or one.startswith(entry + "/") for entry in kept)]


def test_instructions_are_known() -> None:
    assert {one.name for one in ALL} <= KNOWN
    assert all(one.options.keys() <= OPTIONS.get(one.name, set()) for one in ALL)
    assert all(STAGES[0] <= n or one.name == "ARG" for n, one in enumerate(ALL))


def test_what_is_copied_is_there() -> None:
    files, stages = context(), [ALL[n].rest.partition(" AS ")[2] for n in STAGES]
    for one in ALL:
        if one.name == "COPY" and "from" not in one.options:
            *sources, target = one.rest.split()
            assert all(any(fnmatch.fnmatch(file, f"{name}*") for file in files) for name in sources)
            assert len(sources) == 1 or target.endswith("/")
        elif one.name == "COPY":
            assert one.options["from"] in stages


def test_variables_are_declared_in_their_stage() -> None:
    before = {one.rest.partition("=")[0] for one in ALL[: STAGES[0]]}  # known in the lines with FROM only
    known: set[str] = set()
    for n, one in enumerate(ALL):
        used = set(re.findall(r"\$\{?([A-Z]+)", one.rest)) - {"PATH"}
        assert used <= (before if n in STAGES else known), one
        known = set() if n in STAGES else known | ({one.rest.partition("=")[0]} if one.name == "ARG" else set())


def test_it_runs_as_nobody_and_checks_itself() -> None:
    user, group = only("USER").split(":")
    assert int(user) > 0 and int(group) > 0  # numbers, so that Kubernetes can see it (runAsNonRoot)
    (health,) = (one for one in FINAL if one.name == "HEALTHCHECK")
    limit = int(health.options["timeout"].rstrip("s"))
    grace, seconds, command = re.fullmatch(r"CMD timeout -k (\d+) (\d+) tfgpu (.+) \|\| exit 1", health.rest).groups()  # type: ignore[union-attr]
    assert int(grace) + int(seconds) < limit
    program, name = json.loads(only("CMD"))
    assert (program, name in COMMANDS, command.split()[0] in COMMANDS) == ("tfgpu", True, True)


def healthy(environ: dict[str, str]) -> int:
    """The exit code of the health check."""
    (text,) = (one.rest for one in FINAL if one.name == "HEALTHCHECK")
    return subprocess.run(["sh", "-c", text.removeprefix("CMD ")], env=environ, timeout=90, check=False).returncode


def test_the_health_check_has_the_exit_codes_that_docker_knows(
    tmp_path_factory: pytest.TempPathFactory, subtests: pytest.Subtests
) -> None:
    for code, expected in [(0, 0), (1, 1), (2, 1), (3, 1)]:
        with subtests.test(code=code):
            tmp_path = tmp_path_factory.mktemp("row")
            (tmp_path / "tfgpu").write_text(f"#!/bin/sh\nexit {code}\n")
            (tmp_path / "tfgpu").chmod(0o755)
            assert healthy({"PATH": f"{tmp_path}:/usr/bin:/bin"}) == expected


@pytest.mark.full  # downloads TensorFlow with CUDA, 3 GB
def test_what_the_image_runs(tmp_path: Path, driver_lab: Lab) -> None:
    if shutil.disk_usage(tmp_path).free < ROOM:
        pytest.skip(f"needs {ROOM >> 30} GiB of disk")
    opt, source = tmp_path / "opt", tmp_path / "src"
    for file in context():
        (source / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, source / file)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python").symlink_to(sys.executable)
    (tensorflow,) = (one.rest.partition("=")[2] for one in ALL if one.rest.startswith("TENSORFLOW="))
    environ = {**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "TENSORFLOW": tensorflow}
    environ.pop("PYTHONPATH", None)
    for one in ALL:
        if one.name == "RUN":
            text = one.rest.replace("/opt/", f"{opt}/").replace(" /src", f" {source}")
            done = subprocess.run(["sh", "-ec", text], env=environ, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
    image = {"PATH": f"{opt / 'tfgpu/bin'}:/usr/bin:/bin", "HOME": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    assert healthy(image) == 1  # no driver, no GPU
    driver = driver_lab.environ(**H100)
    assert healthy({**driver, **image, "PATH": f"{opt / 'tfgpu/bin'}:{driver['PATH']}"}) == 0
    shutil.rmtree(opt)
