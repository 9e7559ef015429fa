"""What README.md and docs/ci.md give to paste is executed as it stands, with stand-ins for venv and pip.

With -m full, venv, pip and pre-commit are the real ones, and what they install comes from the package index.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml

from tests.cli.runner import tfgpu
from tests.manifests.shapes import SHAPES
from tests.scripts.recipes import BLOCKS, COMMANDS, FILES, ROOT, Job, Project, blocks, commands, write
from tests.tables import each
from tfgpu_doctor.cli import smoke
from tfgpu_doctor.manifests import KINDS
from tfgpu_doctor.manifests.reading import is_yaml, kind_of

pytestmark = pytest.mark.skipif(not (shutil.which("git") and shutil.which("bash")), reason="no git or no bash")
PROBLEM = "TensorFlow 2.16.1 loads CUDA 12.3"
GITLAB, JENKINS, SLURM = ".gitlab-ci.yml", "Jenkinsfile", "/etc/slurm/prolog.sh"


@pytest.fixture(scope="module", params=["stand-ins", pytest.param("real", marks=pytest.mark.full)])
def project(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    project = Project(tmp_path_factory.mktemp("recipes"), for_real=request.param == "real")
    yield project
    for line in project.asked.read_text(encoding="utf-8").splitlines() if project.asked.exists() else []:
        smoke.command.make_context("smoke", line.split()[1:])  # it has these options, which the stand-in does not know


def copy_of(project: Project, folder: Path) -> Path:
    """A checkout, as GitLab and Jenkins make one."""
    project.shell(f'git clone -q . "{folder}"')
    return folder


def failures(junit: Path) -> int:
    return len(list(ElementTree.parse(junit).getroot().iter("failure")))


# ------------------------------------------------------------------------------------------------------ what is there


def test_nothing_is_left_out() -> None:
    """Each block has a test below; README has blocks of docs/ci.md only, word for word."""
    workflows = (".github/workflows/gpu.yml", ".github/workflows/check.yml")
    assert sorted(FILES) == sorted([*workflows, GITLAB, JENKINS, ".pre-commit-config.yaml", SLURM])
    assert len(COMMANDS) == 5 == len({*map(commands, ("submodule", "venv tool\n", "autoupdate", "baseline", "/opt/"))})
    assert set(blocks("README.md")) <= set(BLOCKS)


def test_nothing_is_asked_for_where_it_is_not() -> None:
    """No package index has tfgpu, and who takes the name decides what is installed; no address is made up."""
    files = [*ROOT.glob("*.md"), ROOT / "action.yml", *ROOT.glob("docs/**/*.md"), *ROOT.glob("tfgpu_doctor/**/*.py")]
    for path in files:
        text = path.read_text(encoding="utf-8")
        assert not re.search(
            r"""pip install [^\n]*(?<![/\w])tfgpu-doctor|\buses: (?!\./|actions/|github/)|/OWNER/""", text
        ), path


# ------------------------------------------------------------------------------------------------------------ GitHub


def test_the_workflow_for_a_gpu_runner(project: Project, tmp_path: Path) -> None:
    job = Job(project, tmp_path, yaml.safe_load(FILES[".github/workflows/gpu.yml"])["jobs"]["gpu"])
    *before, action = job.steps
    assert [step.code for step in before] == [0, 0]
    assert action.code == 1, action.log
    assert "::error title=tfgpu smoke%3A import%3A failed::" in action.log
    outputs = dict(line.split("=", 1) for line in job.outputs.read_text(encoding="utf-8").splitlines())
    assert (outputs["verdict"], outputs["gpus"]) == ("failed", "0")
    assert json.loads(Path(outputs["report"]).read_text(encoding="utf-8"))["schema"] == "tfgpu.smoke/1"
    assert failures(Path(outputs["junit"])) > 0
    assert job.summary.read_text(encoding="utf-8").startswith("**✗ tfgpu smoke failed")


def test_the_workflow_for_pull_requests(project: Project, tmp_path: Path) -> None:
    workflow = yaml.safe_load(FILES[".github/workflows/check.yml"])
    job = Job(project, tmp_path, workflow["jobs"]["check"])
    assert [step.code for step in job.steps] == [0, 0, 1, 0], job.steps[2].log
    assert f"::error file=Dockerfile,line=1,title={PROBLEM}" in job.steps[2].log
    sarif = json.loads((job.workspace / "tfgpu.sarif").read_text(encoding="utf-8"))
    assert "Dockerfile" in json.dumps(sarif["runs"][0]["results"])
    assert "third_party" not in json.dumps(sarif)
    assert workflow["permissions"]["security-events"] == "write"


# ------------------------------------------------------------------------------------------------- GitLab and Jenkins


@each(("name", "output"), [("check", PROBLEM), ("gpu", "smoke ")])
def test_the_jobs_of_gitlab(project: Project, tmp_path: Path, name: str, output: str) -> None:
    pipeline = yaml.safe_load(FILES[GITLAB])
    job, folder = pipeline[name], copy_of(project, tmp_path / "build")
    assert pipeline["variables"] == {"GIT_SUBMODULE_STRATEGY": "normal"}
    project.shell("git submodule --quiet update --init", cwd=folder)
    done = project.run("\n".join(job["script"]), "bash", "-eo", "pipefail", cwd=folder)
    assert done.returncode == 1 and output in done.stdout, done.stdout + done.stderr
    assert failures(folder / job["artifacts"]["reports"]["junit"]) > 0


def test_the_pipeline_of_jenkins(project: Project, tmp_path: Path) -> None:
    folder = copy_of(project, tmp_path / "workspace")
    (script,) = re.findall(r"sh '''(.*?)'''", FILES[JENKINS], re.DOTALL)
    done = project.run(script, "sh", "-xe", cwd=folder)
    assert done.returncode == 1 and "smoke " in done.stdout, done.stderr
    (junit,) = re.findall(r"junit '(.*)'", FILES[JENKINS])
    assert failures(folder / junit) > 0


# ------------------------------------------------------------------------------------------------ shells and clusters


def test_a_commit_instead_of_a_submodule(project: Project, tmp_path: Path) -> None:
    folder = copy_of(project, tmp_path / "work")
    commit = project.shell("git rev-parse HEAD", cwd=project.source).stdout.strip()
    done = project.run(commands("venv tool\n"), "sh", "-e", cwd=folder, TFGPU_COMMIT=commit)
    assert done.returncode == 0, done.stderr
    project.shell("python3 -m venv env && env/bin/python -m pip install ./tensorflow", cwd=folder)
    if not project.for_real:
        assert f"git+{project.environ['TFGPU_SOURCE']}@{commit}" in project.log.read_text(encoding="utf-8").split()


def test_the_prolog_of_slurm(project: Project, tmp_path: Path) -> None:
    """In a folder in place of /opt, without any variable, as Slurm starts it."""
    commit = project.shell("git rev-parse HEAD", cwd=project.source).stdout.strip()
    install = commands("/opt/").replace("/opt/", f"{tmp_path}/")
    done = project.run(install, "sh", "-e", TFGPU_COMMIT=commit)
    assert done.returncode == 0, done.stderr
    project.shell(
        f"python3 -m venv {tmp_path}/tensorflow && {tmp_path}/tensorflow/bin/python -m pip install ./tensorflow"
    )
    write(tmp_path / "prolog.sh", FILES[SLURM].replace("/opt/", f"{tmp_path}/"), 0o755)
    prolog = subprocess.run([tmp_path / "prolog.sh"], capture_output=True, text=True, timeout=300, check=False, env={})
    assert prolog.returncode == 1 and "smoke " in prolog.stdout, prolog.stderr


# -------------------------------------------------------------------------------------------------------- pre-commit

HOOK = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))[0]


def test_the_hook_runs_for_every_kind_of_file_that_is_read() -> None:
    names = {name for shape in SHAPES.values() for name in shape.files}
    read = {name for name in names if kind_of(name) or is_yaml(name)}
    by_keys = {"kubernetes", "compose", "conda", "workflow"}
    assert {kind_of(name) for name in read} - {None} | by_keys == set(KINDS), "no example of a kind"
    assert [name for name in sorted(read) if not re.search(HOOK["files"], name)] == []
    for name in (
        "a/Dockerfile.gpu",
        "Containerfile",
        "conda-lock.yml",
        "pylock.gpu.toml",
        "x/requirements",
        "values.yaml.j2",
    ):
        assert re.search(HOOK["files"], name), name
    for name in ("train.py", "README.md", "Makefile", "setup.sh", "a.toml.bak"):
        assert not re.search(HOOK["files"], name), name


def test_the_hook_is_a_command_that_passes_with_the_arguments_of_the_recipe(project: Project) -> None:
    (repo,) = yaml.safe_load(FILES[".pre-commit-config.yaml"])["repos"]
    (hook,) = repo["hooks"]
    assert hook["id"] == HOOK["id"]
    assert (project.root / repo["repo"] / ".pre-commit-hooks.yaml").is_file()
    program, *words = HOOK["entry"].split()
    assert (program, HOOK["language"], HOOK["pass_filenames"]) == ("tfgpu", "python", False)
    done = tfgpu(*words, *hook["args"], cwd=project.root)
    assert done.returncode == 1 and PROBLEM in done.stdout


@pytest.mark.full
def test_the_hook_in_the_real_pre_commit(tmp_path: Path) -> None:
    project = Project(tmp_path, for_real=True)
    project.environ["PRE_COMMIT_HOME"] = str(tmp_path / "cache")
    project.shell(f"python3 -m venv {tmp_path}/tool && {tmp_path}/tool/bin/python -m pip install -q pre-commit")
    project.environ["PATH"] = f"{tmp_path}/tool/bin:{project.environ['PATH']}"
    project.shell("set -e\n" + commands("autoupdate"))
    commit = project.shell("git -C third_party/tfgpu rev-parse HEAD").stdout.strip()
    assert f"rev: {commit}" in (project.root / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    done = project.run("git commit -qam 'wrong versions'")
    assert done.returncode == 1 and PROBLEM in done.stdout + done.stderr, done.stdout + done.stderr
    write(project.root / "Dockerfile", "FROM python:3.11\nRUN pip install 'tensorflow[and-cuda]==2.17.1'\n")
    project.shell("git commit -qam 'right versions'")
