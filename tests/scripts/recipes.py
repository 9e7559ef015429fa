"""What docs/ci.md gives to paste, and a made-up project in which it is executed as GitHub, GitLab and Jenkins do."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
_FILE = re.compile(r"^(?:#!.*\n)?(?:#|//) ([\w./-]+)$", re.MULTILINE)  # the first line of a block names its file
_EXPRESSION = re.compile(r"\$\{\{ (?:inputs|steps\.\w+\.outputs)\.([\w-]+) \}\}")
_NEEDED = ("PIP_", "UV_", "SSL_", "LANG", "LC_", "TMPDIR", "HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy")


def blocks(document: str) -> list[str]:
    """The code blocks of a page that are there to be pasted."""
    path = ROOT / document
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    return re.findall(r"^```(?:sh|yaml|groovy)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


BLOCKS = blocks("docs/ci.md")
FILES = {found[1]: block for block in BLOCKS if (found := _FILE.match(block))}
COMMANDS = [block for block in BLOCKS if block not in FILES.values()]  # for a shell


def commands(word: str) -> str:
    """The block of commands that has a word."""
    (found,) = (block for block in COMMANDS if word in block)
    return found


def write(path: Path, text: str, mode: int = 0o644) -> None:
    """Write a file, and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)


# ------------------------------------------------------------------------------------------------------- the project

# A TensorFlow that cannot be imported: smoke's answer is the same with a GPU and without one.
STAND_IN = {
    "requirements.txt": "./tensorflow\n",
    "tensorflow/pyproject.toml": "[build-system]\nrequires = ['hatchling']\nbuild-backend = 'hatchling.build'\n"
    "[project]\nname = 'tensorflow'\nversion = '2.15.1'\n",
    "tensorflow/tensorflow/__init__.py": "raise ImportError('libcudart.so.12: cannot open shared object file')\n",
}
DOCKERFILE = "FROM nvidia/cuda:11.8.0-cudnn8-runtime-ubuntu22.04\nRUN pip install tensorflow==2.16.1\n"


@dataclass
class Project:
    """A git repository with requirements, a Dockerfile and the files of docs/ci.md; a source of tfgpu beside it."""

    folder: Path
    for_real: bool = False  # venv and pip are what they are, not stand-ins
    root: Path = field(init=False)
    environ: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        self.root, self.source = self.folder / "project", self.folder / "tfgpu.git"
        self.log, self.asked = self.folder / "installed.txt", self.folder / "asked.txt"  # of the stand-ins
        programs = Path(sys.executable).resolve().parent if self.for_real else self._stand_ins()
        self.environ = {
            **{name: value for name, value in os.environ.items() if name.startswith(_NEEDED)},
            "PATH": f"{programs}{os.pathsep}{os.defpath}",
            "HOME": os.environ["HOME"] if self.for_real else str(self.folder),
            "TFGPU_SOURCE": f"file://{self.source}",
            **{
                f"GIT_{role}_{key}": f"{key}@example.com"
                for role in ("AUTHOR", "COMMITTER")
                for key in ("NAME", "EMAIL")
            },
            # git refuses a submodule from a folder, for which a URL stands here
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "protocol.file.allow",
            "GIT_CONFIG_VALUE_0": "always",
        }
        self._make_source()
        for name, text in {**STAND_IN, "Dockerfile": DOCKERFILE, **FILES}.items():
            if not name.startswith("/"):
                write(self.root / name, text)
        self.shell("git init -q && git add . && git commit -qm project")
        _, *lines = commands("submodule").splitlines()  # the first one gives the URL of an example
        self.shell("\n".join(["set -e", *lines]))

    def shell(self, script: str, *shell: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Run a script that must succeed."""
        done = self.run(script, *shell, cwd=cwd)
        assert done.returncode == 0, done.stdout + done.stderr
        return done

    def run(
        self, script: str, *shell: str, cwd: Path | None = None, **environ: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a script in a shell, without the variables of the tests."""
        return subprocess.run(
            [*(shell or ("bash",)), "-c", script],
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
            env={**self.environ, **environ},
            cwd=cwd or self.root,
        )

    def _make_source(self) -> None:
        """The repository of tfgpu as it is here, uncommitted changes included."""
        names = ["action.yml", ".pre-commit-hooks.yaml", "pyproject.toml", "scripts/action.sh"]
        if self.for_real:
            names += ["README.md", "LICENSE", "compat_matrix.yaml", "scripts", "tfgpu_doctor"]
        for name in names:
            path = ROOT / name
            copy = shutil.copytree if path.is_dir() else shutil.copy2
            (self.source / name).parent.mkdir(parents=True, exist_ok=True)
            copy(path, self.source / name, **({"dirs_exist_ok": True} if path.is_dir() else {}))  # type: ignore[operator]
        self.shell("git init -q && git add -f . && git commit -qm tfgpu", cwd=self.source)

    def _stand_ins(self) -> Path:
        """A python3 whose environments have a pip that only looks whether there is what it shall install.

        Their tfgpu is the real one; smoke, which takes a second, writes down its arguments instead, save on GitHub.
        """
        programs = self.folder / "bin"
        write(
            programs / "tfgpu",
            f"""#!/bin/sh
if [ "$1" = smoke ] && [ -z "$GITHUB_ACTIONS" ]; then
  echo "$*" | tee -a "{self.asked}"
  while [ $# -gt 1 ]; do
    case "$1 $2" in "--output -") ;; "--output "*) echo '<failure/>' > "$2" ;; esac
    shift
  done
  exit 1
fi
PYTHONPATH="{ROOT}:$PYTHONPATH" exec "{sys.executable}" -m tfgpu_doctor "$@"
""",
            0o755,
        )
        write(
            programs / "python",
            f"""#!/bin/sh
case "$*" in
  *"-m pip install "*)
    for last; do :; done
    echo "$last" >> "{self.log}"
    case "$last" in git+*) ;; *) ls -d "$last" > /dev/null ;; esac ;;
  *) PYTHONPATH="{self.root / "tensorflow"}" exec "{sys.executable}" "$@" ;;
esac
""",
            0o755,
        )
        write(
            programs / "python3",
            f"""#!/bin/sh
case "$*" in
  "-m venv "* | "-I -m venv "*)
    for last; do :; done
    mkdir -p "$last/bin" && cp "{programs}/python" "{programs}/tfgpu" "$last/bin/" ;;
  *) exec "{sys.executable}" "$@" ;;
esac
""",
            0o755,
        )
        return programs


# ------------------------------------------------------------------------------------------------------------ GitHub


@dataclass
class Step:
    """What came of a step of a job."""

    uses: str
    code: int | None = None  # None: skipped
    log: str = ""


class Job:
    """A job of a workflow: steps in a fresh checkout, one after the other, until one fails."""

    def __init__(self, project: Project, folder: Path, job: dict[str, Any]) -> None:
        self.project, self.folder, self.workspace = project, folder, folder / "work"
        self.outputs = folder / "outputs.txt"
        self.summary = folder / "summary.md"
        (folder / "temp dir").mkdir(parents=True)
        self.steps: list[Step] = []
        for step in job["steps"]:
            if self.failed and not self._always(step.get("if", "")):
                self.steps.append(Step(step.get("uses", "")))
            else:
                self.steps.append(self._step(step))

    @property
    def failed(self) -> bool:
        """Whether a step has failed."""
        return any(step.code for step in self.steps)

    def _always(self, condition: str) -> bool:
        found = re.fullmatch(r"\$\{\{ !cancelled\(\) && hashFiles\('(.+)'\) != '' \}\}", condition)
        assert found or not condition, f"a condition that this test does not know: {condition}"
        return found is not None and (self.workspace / found[1]).is_file()

    def _step(self, step: dict[str, Any]) -> Step:
        uses, given = step.get("uses", ""), step.get("with", {})
        if uses.startswith("actions/checkout@"):
            clone = f'git clone -q "{self.project.root}" "{self.workspace}"'
            update = f' && git -C "{self.workspace}" submodule --quiet update --init' if given.get("submodules") else ""
            self.project.shell(clone + update, cwd=self.folder)
            return Step(uses, 0)
        if uses.startswith("./"):
            return self._action(self.workspace / uses, {name: str(value) for name, value in given.items()})
        if uses:
            assert (self.workspace / given["sarif_file"]).is_file(), uses
            return Step(uses, 0)
        done = self._shell(step["run"], "bash", "-e")
        return Step("", done.returncode, done.stdout + done.stderr)

    def _action(self, folder: Path, given: dict[str, str]) -> Step:
        """The steps of a composite action, with its inputs in the place of expressions."""
        action = yaml.safe_load((folder / "action.yml").read_text(encoding="utf-8"))
        assert set(given) <= set(action["inputs"]), "an input that the action does not have"
        inputs = {name: given.get(name, str(one["default"])) for name, one in action["inputs"].items()}
        log = ""
        for step in action["runs"]["steps"]:
            assert step["shell"] == "bash"
            environ = {
                name: _EXPRESSION.sub(lambda found: inputs[found[1]], value)
                for name, value in step.get("env", {}).items()
            }
            done = self._shell(
                step["run"],
                *("bash", "--noprofile", "--norc", "-eo", "pipefail"),
                GITHUB_ACTION_PATH=str(folder),
                **environ,
            )
            log += done.stdout + done.stderr
            if done.returncode:
                break
        return Step(str(folder), done.returncode, log)

    def _shell(self, script: str, *shell: str, **environ: str) -> subprocess.CompletedProcess[str]:
        assert "${{" not in script
        variables = {
            "CI": "true",
            "GITHUB_ACTIONS": "true",
            "GITHUB_WORKSPACE": str(self.workspace),
            "GITHUB_OUTPUT": str(self.outputs),
            "GITHUB_STEP_SUMMARY": str(self.summary),
            "RUNNER_TEMP": str(self.folder / "temp dir"),
        }
        return self.project.run(script, *shell, cwd=self.workspace, **variables, **environ)
