"""Commands that can be pasted here: right for this OS, this Python and this package manager. Pure."""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace

from msgspec import structs
from packaging.specifiers import SpecifierSet

from tfgpu_doctor.facts.distributions import TENSORFLOW
from tfgpu_doctor.facts.facts import NOT_IN_TEXT, ONE_OF, Known, Python, Setting, Unknown, value_or
from tfgpu_doctor.facts.report import Fix
from tfgpu_doctor.facts.versions import at_least, major, minor, numbers
from tfgpu_doctor.findings.declaration import ON_HOSTED, OTHER_RELEASE, is_probed
from tfgpu_doctor.findings.requirements import KERAS_3
from tfgpu_doctor.matrix.compatibility import XLA_COMPILER, driver_reaches, oldest_driver
from tfgpu_doctor.matrix.loader import Release
from tfgpu_doctor.matrix.queries import takes_cudnn
from tfgpu_doctor.plan.alternatives import PUBLISHED, alternatives, on_cpu
from tfgpu_doctor.plan.constraints import (
    CONSTRAINTS,
    PlanRequest,
    broken_within,
    candidates,
    same_minor_releases,
    violations,
)
from tfgpu_doctor.plan.gate import Repair, Situation, admitted, has_pip, needs_a_machine_of_its_own, refused
from tfgpu_doctor.plan.install_commands import Installation, link_commands, python_for, xla_line, xla_line_command
from tfgpu_doctor.plan.places import excluding, in_a_cell, in_r
from tfgpu_doctor.plan.records import Option
from tfgpu_doctor.plan.target import has_no_gpu
from tfgpu_doctor.plan.windows_shell import for_both_shells, on_windows, quoted

NVIDIA_DRIVERS = "https://www.nvidia.com/drivers"
# where TensorFlow is: on Debian and Ubuntu, and for pip without root, that is not sysconfig's purelib
_SITE = 'import importlib.util as u, os; print(os.path.dirname(os.path.dirname(u.find_spec("tensorflow").origin)))'
SITE = f"\"$({{python}} -c '{_SITE}')\""
_FOR_THE_HOST = re.compile(r"\b(reboot|modprobe|rmmod|mokutil|dkms|systemctl|dmesg)\b")
_WITH_DOCKER_DESKTOP = ("windows", "macos")
_OF_TENSORFLOW = re.compile(r"\bTF_[A-Z_]+=|\btf\.\w|\btensorflow(?:\[|==|/tensorflow)|[Ii]nstall TensorFlow")
_IN_A_LINUX = re.compile(r"WSL|container|Docker|image|on the host", re.IGNORECASE)  # so says the text of a fix
_BY_PIP = re.compile(r"\bpip (?:un)?install\b")
_OF_A_SHELL = re.compile(r"^export |\bactivate |\bvenv\b")
_BRINGS_CUDA = re.compile(r"^(?=\S*python)\S+ -m pip install .*(?:\[and-cuda\]|nvidia-cu)")
# https://apptainer.org/docs/user/main/definition_files.html
_IN_POST = "; in %post of the image's definition file, as a .sif is read-only"
_CHANGES_AN_IMAGE = re.compile(r"\bpip (?:un)?install\b|^apt-get ")
_PIP_ALONE = re.compile(r"\S+ -m pip |python3? --version$")
_TO_LAST = "; in a container it lasts with RUN in the image's Dockerfile"
_IN_SNAKEMAKE = "; to last, in the yaml that snakemake makes this environment from"
_NAME = re.compile(r"[\w.-]*")
# bounds and lines of Python, in quotes; every shell knows double ones
_IN_QUOTES = re.compile(r"'([\w.,~=\[\]-]*[<>][\w.,<>~=\[\]-]*)'|(?<=python -c |ython3 -c )'([^'\"$`!\\]*)'(?=$| )")
_NONE_YET = ("no-distribution", "wheel-not-supported")
_OF_A_PYTHON = re.compile(r"^tfgpu (?:doctor|smoke|bench(?: [a-z]+)?)(?= |$)(?!.* --python )")
_BY_CONDA = re.compile(r"(?P<tool>conda|mamba|micromamba) create .*?-n (?P<name>[\w.-]+)")
# commands that make an environment → lines of a Dockerfile; while an image is built, conda sees no driver
_AS_DOCKERFILE = (
    (r"^(?:E=|echo |conda activate ).*$", ""),
    (r"^python3 -m venv ~/tf$", "FROM python:3.12"),
    (r"^python(3\.\d+) -m venv ~/tf$", r"FROM python:\1"),
    (r"^(conda create .*=cuda(\d+)(\d)\*.*)$", r"FROM condaforge/miniforge3\nRUN CONDA_OVERRIDE_CUDA=\2.\3 \1"),
    (r"^(?=conda create )", r"FROM condaforge/miniforge3\nRUN "),
    (r"^(?:~/tf/bin/(?=python )|(?=conda run ))", "RUN "),
)
_ENTERED = "ENV PATH=/opt/conda/envs/tf/bin:$PATH LD_LIBRARY_PATH=/opt/conda/envs/tf/lib"
_ABOUT_ENVIRONMENTS = re.compile(
    r" \(uv or conda can install that Python\)| in an? (?:new )?environment(?: of its own)?"
)
# pip of an environment that the commands have made: its Python stays the same in a notebook's kernel, but does not
# activate it, as that of conda has to be for its libraries (activate.d)
_MADE = re.compile(
    r"(?P<python>~/tf/bin/python|tf\\Scripts\\python) -m pip install|.* --python (?P<uv>~/tf/bin/python) "
)
_MADE_BY_CONDA = re.compile(r"conda run -n \S+ python -m pip install ")
_NAMED_TF = re.compile(r"[/\\]tf[/\\](?:bin|lib|Scripts)\b|[/\\]envs[/\\]tf\b")
_TAKEN = re.compile(r"(?:(?<=-n )|(?<=conda activate )|(?<=~/)|(?<=-m venv ))tf(?![\w-])|^tf(?=\\Scripts)")
_UNSET, _EXPORT = re.compile(r"\bunset ([A-Za-z_]\w*(?: [A-Za-z_]\w*){0,50})$"), re.compile(r"export (\w+)=([^$]*)")
_OF_ITS_RELEASE = Fix(
    "See how the release that the program needs gets its CUDA and cuDNN (pip list shows the one that is there)",
    ("tfgpu plan --tensorflow VERSION",),
)
_HOSTED = Fix(
    f"{ON_HOSTED}use the TensorFlow that is installed there, which fits its CUDA: start a new session (Colab: "
    "Disconnect and delete runtime), and install no other; where a package brings one, pin the version that is there "
    "(!python -m pip install PACKAGE tensorflow==VERSION)"
)


_UPDATE = "sudo apt-get update"
# Distribution → the commands that install its driver (Ubuntu Server guide, "NVIDIA drivers installation"; Debian wiki,
# NvidiaGraphicsDrivers; RPM Fusion, Howto/NVIDIA; Arch wiki, NVIDIA)
_DRIVER_COMMANDS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(
        ("ubuntu", "pop", "linuxmint"),
        (_UPDATE, "sudo apt-get install -y ubuntu-drivers-common", "sudo ubuntu-drivers install"),
    ),
    "debian": (
        "sudo sed -i -E '/^(deb|Components)/ s/\\bmain\\b/main contrib non-free non-free-firmware/'"
        " $(ls /etc/apt/sources.list /etc/apt/sources.list.d/debian.sources 2>/dev/null)",
        _UPDATE,
        "sudo apt-get install -y linux-headers-$(uname -r) nvidia-driver",
    ),
    "fedora": (
        "sudo dnf install -y https://download1.rpmfusion.org/nonfree/fedora/"
        "rpmfusion-nonfree-release-$(rpm -E %fedora).noarch.rpm",
        "sudo dnf install -y akmod-nvidia xorg-x11-drv-nvidia-cuda",
        "sudo akmods --force",
    ),
    **dict.fromkeys(("arch", "manjaro", "endeavouros"), ("sudo pacman -Syu nvidia-open nvidia-utils",)),
}
_NEWEST = 999  # what the other packages have
# the branch that a distribution's commands install at most: Debian 13; the tool of Ubuntu chooses one for the GPU
_BRANCHES = {"debian": 550, **dict.fromkeys(("ubuntu", "pop", "linuxmint"), 0)}


@dataclass(frozen=True)
class Fixes(Situation):
    """Builds fixes for the machine that `facts` describe."""

    @property
    def request(self) -> PlanRequest:
        """The machine, for which any release will do."""
        return PlanRequest(self.matrix, self.target)

    @property
    def is_in_container(self) -> bool:
        """Whether the program runs in a container, as far as that is known."""
        return value_or(self.facts.host.container, "none") != "none"

    @property
    def host(self) -> str:
        """The system of the machine: where Docker is installed, and the driver; linux when unknown."""
        return value_or(self.facts.host.os, "linux")

    @property
    def os(self) -> str:
        """linux, wsl2, windows or macos, where TensorFlow runs: an image is a Linux, on Windows and macOS, too."""
        in_image = value_or(self.facts.python.wheel_platform, "").startswith("linux")
        return "linux" if in_image and self.host in _WITH_DOCKER_DESKTOP else self.host

    def quote(self, word: str) -> str:
        """Quote one word for the user's shell."""
        return quoted(word, self.os)

    @property
    def python(self) -> str:
        """The interpreter under test, quoted."""
        old = major(value_or(self.facts.python.version, "")) == "2"
        default = "python" if old or self.os == "windows" else "python3"
        return self.quote(value_or(self.facts.python.executable, default))

    def that_work_here(self, fixes: tuple[Fix, ...]) -> tuple[Fix, ...]:
        """The fixes with commands for this shell; one whose commands mean nothing here is left out beside others."""
        if any(self.log.values("another-program", "program")):
            # PyTorch or JAX computes: settings of TensorFlow change nothing there
            fixes = tuple(one for one in fixes if not any(map(_OF_TENSORFLOW.search, (one.text, *one.commands))))
        fixes = tuple(self._in_an_image(self._apart(fix)) for fix in self._in_a_hosted_notebook(fixes))
        fixes = self._where_others_decide(fixes)
        found = [(fix, self.where_it_belongs(fix)) for fix in fixes]
        useful = [here for fix, here in found if here.commands or not fix.commands]
        shown = admitted(useful or [here for _, here in found], self.facts, self.matrix)
        return tuple(self._at_its_prompt(self._named_anew(self._for_a_notebook(fix))) for fix in shown)

    def _for_a_notebook(self, fix: Fix) -> Fix:
        """The fix whose new environment the notebook, which keeps its own Python, can be run in.

        https://ipython.readthedocs.io/en/stable/install/kernel_install.html
        """
        *commands, last = fix.commands or ("",)
        inside = self.is_in_container or fix.commands[:1] == ("wsl --install",)
        if "kernel" not in self.places or "r" in self.places or inside:
            return fix
        if any(map(_MADE_BY_CONDA.match, commands)) and last.endswith(" activate tf"):
            commands = [f"{one} notebook" if _MADE_BY_CONDA.match(one) else one for one in commands]
            return structs.replace(fix, commands=(*commands, last, "jupyter notebook"))
        if not (made := _MADE.match(last)):
            return fix
        register = f"{made['python'] or made['uv']} -m ipykernel install --user --name tf"
        text = f"{fix.text}; then choose the kernel tf in the notebook"
        return structs.replace(fix, text=text, commands=(*commands, f"{last} ipykernel", register))

    def _named_anew(self, fix: Fix) -> Fix:
        """The fix with another name for its environment where one of that name is there.

        conda offers to remove it (conda/cli/main_create.py), and `python -m venv` keeps its Python.
        """
        executable = value_or(self.facts.python.executable, "")
        if not _NAMED_TF.search(executable) and not self.log.has("environment-named-tf"):
            return fix
        return structs.replace(fix, commands=tuple(_TAKEN.sub("tf-new", one) for one in fix.commands))

    def _at_its_prompt(self, fix: Fix) -> Fix:
        """The fix for a notebook's cell, or for R's console, where that is what its reader types into."""
        if "hosted" in self.places:
            installs = any(map(_BY_PIP.search, fix.commands)) and "restart" not in fix.text
            again = "; then restart the session" if installs else ""
            return structs.replace(fix, text=f"{fix.text}{again}", commands=tuple(map(in_a_cell, fix.commands)))
        if "sudo" in self.places and any(map(_OF_A_SHELL.search, fix.commands)):
            fix = structs.replace(fix, text=f"{fix.text}; start the program without sudo, which drops these settings")
        if "comfyui" in self.places and any(one.startswith("python") for one in fix.commands):
            own = "; python is here the one that runs ComfyUI (portable: python_embeded\\python.exe)"
            fix = structs.replace(fix, text=fix.text + own)
        commands = in_r(fix.commands) if "r" in self.places else fix.commands
        if commands == fix.commands:
            return fix
        return structs.replace(fix, text=f"{fix.text}; in R, in a new session before library(keras)", commands=commands)

    def _in_a_hosted_notebook(self, fixes: tuple[Fix, ...]) -> tuple[Fix, ...]:
        if not any(needs_a_machine_of_its_own(Repair(fix), self) for fix in fixes):
            return fixes
        program = (fix for fix in fixes if fix.text.startswith("In the program"))
        return (*program, _HOSTED, *(fix for fix in fixes if fix.decides))

    def _where_others_decide(self, fixes: tuple[Fix, ...]) -> tuple[Fix, ...]:
        """The fixes with, for the first that cannot be carried out there, who can change what; without the others."""
        places = [excluding(fix, self.places) for fix in fixes]
        said = {place: place.instead(fix) for fix, place in zip(fixes[::-1], places[::-1], strict=True) if place}
        found = (said.get(place) if place else fix for fix, place in zip(fixes, places, strict=True))
        return tuple(dict.fromkeys(one for one in found if one))

    def _apart(self, fix: Fix) -> Fix:
        """The fix in an environment of its own, where it would replace CUDA's packages under a PyTorch that pins them.

        An environment holds one version of each package, and the metadata of torch names one with ==.
        """
        names = {one.name for one in value_or(self.facts.python.packages, ())}
        if "torch" not in names or not any(name.startswith("nvidia-cu") for name in names) or self.image:
            return fix
        row = self.release if any(map(_BRINGS_CUDA.search, fix.commands)) else None
        text = f"{fix.text}, in an environment of its own, since PyTorch pins other versions in this one"
        return Fix(text, self.new_environment(row)) if row and not self.without_cuda else fix

    def _in_an_image(self, fix: Fix) -> Fix:
        """The fix as a Dockerfile, where it makes an environment and a text is about a container of an unknown image.

        An environment beside the container changes nothing in it, and one within it is gone with the container.
        """
        kind = value_or(self.facts.host.container, "none")
        if ".snakemake/" in value_or(self.facts.python.executable, ""):
            return self._lasting(fix, _IN_SNAKEMAKE)
        if self.image or not self._of_text or kind not in ("docker", "podman", "kubernetes"):
            return fix
        if image := self._published(fix):
            fix = image
        elif not (lines := dockerfile(fix.commands)):
            return self._lasting(fix, _TO_LAST)
        else:
            fix = structs.replace(fix, commands=lines)
        text = _ABOUT_ENVIRONMENTS.sub("", fix.text).replace("reate an environment", "reate an image")
        other = "Take a base image that has these, or begin" if " with CUDA " in text else "Begin"
        text += (
            f". {other} the image's Dockerfile with this, and install the program below; if others made it, ask them"
        )
        return structs.replace(fix, text=text)

    def _lasting(self, fix: Fix, where: str) -> Fix:
        """The fix, which says where to write what it installs, lest it is gone with what it is installed into."""
        installs = any(map(_BY_PIP.search, fix.commands)) and all(map(_PIP_ALONE.match, fix.commands))
        return structs.replace(fix, text=f"{fix.text}{where}") if installs and where not in fix.text else fix

    def _published(self, fix: Fix) -> Fix | None:
        """TensorFlow's image of the release that a fix installs into a Python which a text does not name."""
        row = None if self.target.python else next(Repair(fix).releases(self), None)
        found = self._images(f"=={minor(row.version)}.*") if row and not dockerfile(fix.commands) else iter(())
        if row is None or not (image := next((one for one in found if one.package == PUBLISHED), None)):
            return None
        if image.tensorflow == self.version:  # another patch of the same release is what cures
            return None
        text = fix.text.replace(row.version, image.tensorflow)
        return structs.replace(fix, text=text, commands=(f"FROM {PUBLISHED}:{image.tensorflow}-gpu",))

    def refuses(self, fix: Fix) -> bool:
        """True if the gate refuses a fix."""
        return bool(refused(fix, self))

    def where_it_belongs(self, fix: Fix) -> Fix:
        """The fix for this shell, which says what sets a variable again, and when it is for the host of a container.

        What examines an environment examines this one, not that of whoever types it.
        """
        fix = self._entered(lasting(fix, value_or(self.facts.host.startup_settings, ())))
        fix = structs.replace(fix, commands=tuple(map(self._typed, fix.commands)))
        if self.os == "windows" and not _IN_A_LINUX.search(fix.text):
            return structs.replace(fix, commands=(*for_both_shells(filter(None, map(on_windows, fix.commands))),))
        container = value_or(self.facts.host.container, "none")
        if container == "apptainer" and self._of_text and any(map(_CHANGES_AN_IMAGE.search, fix.commands)):
            return self._in_a_sif(fix)
        if self.image and any(map(_BY_PIP.search, fix.commands)):
            return self._below_its_image(fix, self.image)
        if container == "none" or not any(map(_FOR_THE_HOST.search, fix.commands)):
            return fix
        if self.host in _WITH_DOCKER_DESKTOP:  # no systemd there, and no module of NVIDIA
            return structs.replace(fix, commands=())
        return structs.replace(fix, text=f"{fix.text} (on the host, not in this container)")

    def _below_its_image(self, fix: Fix, image: str) -> Fix:
        """The fix as lines of a Dockerfile."""
        if not has_pip(image):
            return structs.replace(fix, commands=())
        lines = tuple(re.sub(r"^RUN export ", "ENV ", f"RUN {command}") for command in fix.commands)
        return structs.replace(fix, text=f"{fix.text} (in the Dockerfile, below FROM {image})", commands=lines)

    def _in_a_sif(self, fix: Fix) -> Fix:
        """The fix in an image that is built anew from the one which a text names."""
        if dockerfile(fix.commands):
            return fix
        if not self.image:
            return structs.replace(fix, text=f"{fix.text}{_IN_POST}")
        steps = "".join(f"\\n {one.replace('%', '%%')}" for one in fix.commands)
        made = f"Bootstrap: docker\\nFrom: {self.image}\\n%%post{steps}\\n"
        text = f"{fix.text.partition(', or with RUN')[0]}; a .sif is read-only, so build another one"
        commands = (f"printf {shlex.quote(made)} > tf.def", "apptainer build --fakeroot tf.sif tf.def")
        return structs.replace(fix, text=text, commands=commands)

    def _typed(self, command: str) -> str:
        """The command on this interpreter; for an unknown shell, in quotes that cmd.exe knows, too."""
        if self._is_here:
            return _OF_A_PYTHON.sub(lambda found: f"{found[0]} --python {self.python}", command)
        return command if value_or(self.facts.host.os, None) else _IN_QUOTES.sub(r'"\1\2"', command)

    def _entered(self, fix: Fix) -> Fix:
        """The fix that also enters the environment of conda which it makes, for the program to run in it.

        Where a text does not tell the system, the lines of a Linux shell alone say so.
        """
        made = next(filter(None, map(_BY_CONDA.match, fix.commands)), None)
        if made is None:
            return fix
        commands, text = [*fix.commands, f"{made['tool']} activate {made['name']}"], fix.text
        if self._of_text and not value_or(self.facts.host.os, None):
            commands = [f"{one}  # on Linux, and the next two" if one.startswith("E=") else one for one in commands]
        if self._of_text and made["tool"] not in self._tools:
            text += " (conda: https://conda-forge.org/download/)"
        return structs.replace(fix, text=text, commands=tuple(commands))

    def doctor(self, *arguments: str) -> str:
        """A further run of the doctor on the same interpreter; that of a text is the reader's to activate."""
        python = ("--python", self.python) if isinstance(self.facts.python.executable, Known) else ()
        return " ".join(("tfgpu doctor", *python, *arguments))

    def unset(self, *names: str) -> str:
        """The command that removes environment variables in the user's shell."""
        return " & ".join(f'set "{name}="' for name in names) if self.os == "windows" else f"unset {' '.join(names)}"

    def filtered(self, command: str, *words: str, most: int = 0) -> str:
        """The command with only those lines of its output that have one of these words, or the first of them."""
        if self.os == "windows":
            return f'{command} | findstr /i "{" ".join(words)}"'
        return f"{command} | grep -iE {self.quote('|'.join(words))}" + (f" | head -n {most}" if most else "")

    def rename(self, old: str, new: str) -> str:
        """The command that renames a file or a folder, and overwrites none."""
        return f"{'move /-Y' if self.os == 'windows' else 'mv -n'} {self.quote(old)} {self.quote(new)}"

    def without_folders(self, variable: str, value: str, folders: Collection[str]) -> str | None:
        """The command that removes folders from a variable that lists them; None where its value has none of them."""

        def compared(folder: str) -> str:
            return folder.replace("\\", "/").rstrip("/")

        separator = ";" if self.os == "windows" else ":"
        entries, removed = value.split(separator), set(map(compared, folders))
        kept = [entry for entry in entries if compared(entry) not in removed]
        if len(kept) == len(entries):
            return None
        left = separator.join(filter(None, kept))
        return f"export {variable}={self.quote(left)}" if left else self.unset(variable)

    def link(self, folders: Iterable[str], target: str) -> str:
        """The command that links all libraries of folders into one that TensorFlow searches.

        A part "*" of a folder is a pattern. They are linked wherever they are: those of cuDNN search their own folder.
        """
        files = " ".join("/*/".join(map(shlex.quote, folder.split("/*/"))) + "/*.so*" for folder in folders)
        return f"ln -sf {files} {shlex.quote(target + '/')}"

    def in_site(self, path: str) -> str:
        """A path below the site-packages of TensorFlow, as the shell can read it."""
        return f"{SITE.format(python=self.python)}/{path}"

    def xla_data_dir(self, folder: str) -> str:
        """The command that tells XLA where its compiler is; a relative folder is below site-packages.

        A line that Python executes lasts; where XLA_FLAGS is set, it is kept, and the last folder in it counts.
        """
        is_set = "XLA_FLAGS" in value_or(self.facts.variables, {})
        if self.os == "windows":
            # XLA takes a backslash between double quotes for an escape (xla/parse_flags_from_env.cc)
            return f"""set "XLA_FLAGS={"%XLA_FLAGS% " if is_set else ""}--xla_gpu_cuda_data_dir='{folder}'\""""
        site, below = SITE.format(python=self.python), folder == XLA_COMPILER
        if is_set:
            path = self.in_site(folder) if below else shlex.quote(folder)
            return f'export XLA_FLAGS="$XLA_FLAGS --xla_gpu_cuda_data_dir="{path}'
        # a text does not tell what an earlier attempt has set
        return xla_line_command(xla_line("" if below else folder, beside=self._of_text), site)

    def pip_install(self, *requirements: str, python: str | None = None) -> tuple[str, ...]:
        """Install `requirements` into the environment under test with the tool that works there.

        A system Python that its distribution manages (PEP 668) gets a virtual environment instead. Nothing to install
        needs no command, nor what an image has: its TensorFlow, and all of one without pip.
        """
        if self.image:
            own = (one for one in requirements if _NAME.match(one)[0] not in TENSORFLOW)  # type: ignore[index]
            requirements = tuple(own) if has_pip(self.image) else ()
        if all(one.startswith("-") for one in requirements):
            return ()
        packages = " ".join(self.quote(requirement) for requirement in requirements)
        env = self.facts.python
        if python is None and value_or(env.externally_managed, self.log.has("externally-managed")):
            folder, its_python = "~/tensorflow", "~/tensorflow/bin/python"
            if self.os == "windows":
                folder, its_python = "tensorflow", r"tensorflow\Scripts\python"
            return (f"{self.python} -m venv {folder}", f"{its_python} -m pip install {packages}")
        python = python or self.python
        if not value_or(env.pip, True):
            if "uv" in value_or(env.installers, ()):
                return (f"uv pip install --python {python} {packages}",)
            return (f"{python} -m ensurepip --upgrade", f"{python} -m pip install {packages}")
        return (f"{python} -m pip install {packages}",)

    def installing(
        self, text: str, *requirements: str, first: tuple[str, ...] = (), then: tuple[str, ...] = ()
    ) -> tuple[Fix, ...]:
        """The fix that installs `requirements` between other commands; none where they cannot be installed."""
        install = self.pip_install(*requirements)
        return (Fix(text=text, commands=(*first, *install, *then)),) if install else ()

    def pip_uninstall(self, *names: str) -> str:
        """Remove distributions from the environment under test."""
        packages = " ".join(self.quote(name) for name in names)
        if not value_or(self.facts.python.pip, True) and "uv" in value_or(self.facts.python.installers, ()):
            return f"uv pip uninstall --python {self.python} {packages}"
        return f"{self.python} -m pip uninstall -y {packages}"

    @property
    def knows_gpu(self) -> bool:
        """True if the compute capability of a GPU is known."""
        return bool(self.target.gpus)

    def python_for(self, row: Release) -> str:
        """The Python of the environment that a release is installed into."""
        return self.installation(row).python

    def wrong_cudnn_of_image(self) -> tuple[Release, str] | None:
        """The release in the image that TensorFlow is part of, and the image's cuDNN, where they do not go together."""
        base = self.base
        if base is None or base.image.name != PUBLISHED or not base.cudnn:  # those of NVIDIA hold a build of its own
            return None
        wheel = self.matrix.tensorflow(base.tensorflow or "", "linux_x86_64")
        return (wheel, base.cudnn) if wheel and not takes_cudnn(wheel, base.cudnn) else None

    def for_image(self) -> tuple[Fix, ...] | None:
        """What an image with kernels for the GPU lacks: a newer driver, or nothing; None without a known image."""
        image, driver = self.container, self.target.driver
        if image is None:
            return None
        return () if driver and driver_reaches(driver, image.min_driver) else (self.install_driver(),)

    def installation(self, row: Release) -> Installation:
        """How a release is installed here: for this Python, or another one that is here, or its own newest."""
        python, program = python_for(row, self._pythons)
        if self.target.python in row.python:
            python, program = str(self.target.python), self.python if self._is_here else None
        return Installation(self.matrix, self.target, row, python, program, on_cpu=has_no_gpu(self.facts))

    @property
    def _is_here(self) -> bool:
        """True if the Python of the facts is one of this machine, whose path can be typed."""
        return not self._of_text and isinstance(self.facts.python.executable, Known)

    @property
    def _pythons(self) -> dict[str, str]:
        """Programs that create environments here, quoted, by version."""
        return {minor(one.version): self.quote(one.executable) for one in value_or(self.facts.python.makers, ())}

    def install_tensorflow(self, row: Release) -> tuple[str, ...]:
        """Install a release with its CUDA libraries, where it finds them, and a cuDNN that still supports the cards."""
        return (*self.pip_install(*self.installation(row).requirements), *self.made_visible(row))

    def made_visible(self, row: Release) -> tuple[str, ...]:
        """The links by which a release finds pip's CUDA, where it does not search these folders."""
        managed = value_or(self.facts.python.externally_managed, self.log.has("externally-managed"))
        python = "~/tensorflow/bin/python" if managed else self.python  # of pip_install
        paths = value_or(self.facts.python.tensorflow_paths, ())
        site = self.quote(posixpath.dirname(paths[0])) if paths and not managed else SITE.format(python=python)
        return link_commands(row, site, cuda_from_pip=self.installation(row).cuda_from_pip)

    def kept_release(self, version: str | None = None) -> Release | None:
        """The release that is there, or its newest patch, where it can use the GPU here with CUDA from pip.

        Args:
            version: what was asked for, where nothing is installed.
        """
        wanted = None if self.image or self.on_jetson else version or self._installed_version()
        row = next(iter(same_minor_releases(self.request, wanted)), None) if wanted else None
        return row if row and (row.extra or self.installation(row).cuda_from_pip) else None

    def _installed_version(self) -> str | None:
        """Of `tensorflow` itself where other packages have overwritten its files."""
        listed = [one for one in value_or(self.facts.python.packages, ()) if one.name in TENSORFLOW]
        own = [one.version for one in listed if one.name == "tensorflow"]
        return own[0] if own and len(listed) > 1 else value_or(self.facts.tensorflow.version, None)

    @property
    def _possible_releases(self) -> tuple[str, ...]:
        """The release that is there, or those that it can be."""
        have, version = self._installed_version(), self.facts.tensorflow.version
        return (have,) if have else version.one_of if isinstance(version, Unknown) else ()

    @property
    def _possible_pythons(self) -> frozenset[str]:
        """Where a text does not name the Python: those that the release which is there runs in."""
        if self.target.python or not self._of_text:
            return frozenset()
        rows = (self.matrix.tensorflow(one, self.target.platform) for one in self._possible_releases)
        return frozenset(python for row in rows if row for python in row.python)

    @property
    def release(self) -> Release | None:
        """The one release that this report advises."""
        return self.kept_release() or self.best_release() or self.best_release(this_python=False)

    @property
    def tensorflow(self) -> tuple[str, ...]:
        """What pip of this Python is asked for to get one release, never of any version; empty where none fits."""
        if self.image or self.on_jetson:
            return ()
        row, version = self.release, self._installed_version()
        is_other = row and version and minor(version) != minor(row.version)
        if version and is_other and (own := self._same_release(version)):
            return own
        if row and self.target.python in (None, *row.python):
            return self.installation(row).requirements
        if not (version := self._with_a_wheel(version)):
            return ()
        # that release, by the name of the package that is there, with the bounds that its metadata lacks
        name = value_or(self.facts.tensorflow.distribution, "")
        names = ("tensorflow-gpu", "tensorflow")[name != "tensorflow-gpu" :]
        row = next(filter(None, (self.matrix.tensorflow(version, self.target.platform, one) for one in names)), None)
        unknown = (f"tensorflow=={version}",) if at_least(version, "0.12") else ()  # the first on the index
        return (f"{row.package}=={version}", *self.bounded(row)[1:]) if row else unknown

    def bounded(self, row: Release) -> tuple[str, ...]:
        """A release without libraries of CUDA, with the bounds that its metadata lacks."""
        return f"{row.package}=={row.version}", *self.installation(row).bounds

    def _same_release(self, version: str) -> tuple[str, ...]:
        """The release that is there, for a program that is written for it; of TensorFlow 1, mostly as tensorflow-gpu.

        None where it cannot use the GPU here, or has no wheel for this Python.
        """
        names = ("tensorflow", "tensorflow-gpu")
        builds = [self.matrix.tensorflow(version, self.target.platform, name) for name in names]
        usable = [one for one in builds if one and one.gpu and self.can_use(one)]
        own = next((one for one in usable if self.target.python in (None, *one.python)), None)
        return self.bounded(own) if own else ()

    def _with_a_wheel(self, version: str | None) -> str | None:
        """A release if it has a wheel for this Python, or is not known; else the newest that has one."""
        python, platform = self.target.python, self.target.platform
        there = self.matrix.tensorflow(version, platform) if version else None
        if version and not (there and python not in (None, *there.python)):
            return version
        rows = (one for one in candidates(self.matrix, platform) if one.package == "tensorflow")
        return next((one.version for one in rows if python in (None, *one.python) and self.can_use(one)), None)

    def use_wsl(self) -> Iterator[Fix]:
        """Install WSL2, and there what a plan ranks first for this GPU."""
        tensorflow = self.facts.tensorflow  # what may be one of several releases is no choice
        if isinstance(tensorflow.version, Known) and tensorflow.version.source.startswith(ONE_OF):
            tensorflow = structs.replace(tensorflow, version=NOT_IN_TEXT)
        facts = structs.replace(
            self.facts,
            tensorflow=tensorflow,
            host=structs.replace(self.facts.host, os=Known("wsl2", "WSL2")),
            python=Python(wheel_platform=Known("linux_x86_64", "WSL2")),  # another one
        )
        wsl = Fixes(facts, self.matrix)
        text, first = "Use WSL2: install it, and restart Windows", "wsl --install"
        if row := wsl.release:
            # the recipe of the plan: for some releases it is more than one installation
            ways = wsl.installation(row).commands
            way = next(iter(ways), "")
            # the standalone installer (uv, "Installation") puts it there; a new WSL has neither uv nor venv
            own = (re.sub(r"^uv ", "~/.local/bin/uv ", one) for one in ways.get(way, ()))
            recipe = (*(("curl -LsSf https://astral.sh/uv/install.sh | sh",) if way == "uv" else ()), *own)
            yield Fix(text=f"{text}; the rest in the terminal of WSL2", commands=(first, *recipe))
        else:
            beside = wsl.beside_the_wheels("in the terminal of WSL2")[:1]
            told = "; then ".join((text, *(one.text for one in beside)))
            yield Fix(text=told, commands=(first, *(line for one in beside for line in one.commands)))

    def reinstall(self, why: str, version: str | None = None) -> tuple[Fix, ...]:
        """Advise the one release of this report: the one that is there, or else the best; empty when none fits."""
        if self.without_cuda is not None and not self.image:
            return self._beside_this_build(why)
        row = self.kept_release(version)
        return self._install(row, why) if row else self.reinstall_best(why)

    def _beside_this_build(self, why: str) -> tuple[Fix, ...]:
        """A new environment for the release of a build without CUDA, which pip would keep."""
        target = structs.replace(self.target, python=None)
        rows = same_minor_releases(PlanRequest(self.matrix, target), self._installed_version() or "")
        row = next((one for one in rows if one.gpu), None) or self.release
        if row is None:
            return self.reinstall_best(why)
        of_conda = replace(self.request, specifier=SpecifierSet(f"=={minor(row.version)}.*"))
        found = (one for one in alternatives(of_conda) if one.kind == "conda-forge" and "conda" in self._tools)
        ways = next(((one.tensorflow, one.commands["conda"]) for one in found), None)
        version, commands = ways or (row.version, self.new_environment(row))
        text = f"{self._verb(row)} TensorFlow {version} in a new environment: {why}{self._driver_for(row)}"
        # conda replaces an environment of the same name, which "tf" often is
        return (Fix(text, tuple(re.sub(r"-n tf\b", "-n tf-gpu", one) for one in commands)),) if commands else ()

    @property
    def _tools(self) -> tuple[str, ...]:
        """The tools that make environments here; of a text, conda where it installed a package."""
        of_conda = any(one.installer == "conda" for one in value_or(self.facts.python.packages, ()))
        return value_or(self.facts.python.installers, ("conda",) if of_conda else ())

    def _install(self, row: Release, why: str) -> tuple[Fix, ...]:
        text = f"{self._verb(row)} TensorFlow {row.version}: {why}{self._driver_for(row)}"
        return (Fix(text, self.install_tensorflow(row)),)

    @property
    def _of_text(self) -> bool:
        """True for a pasted text."""
        return not is_probed(self.facts)

    def _verb(self, row: Release) -> str:
        """Install; on a condition where the program was, or may have been, written for another TensorFlow."""
        have, version, text = self._installed_version(), self.facts.tensorflow.version, self._of_text
        is_other = text and not self.log.has(*_NONE_YET)
        if have:  # from 2.16 on, its Keras is Keras 3
            keras = text and at_least(have, KERAS_3) != at_least(row.version, KERAS_3)
            is_other = keras or major(have) != major(row.version)
        elif isinstance(version, Unknown) and version.one_of:
            is_other = minor(row.version) not in map(minor, version.one_of)
        return f"{OTHER_RELEASE}install" if is_other else "Install"

    def _driver_for(self, row: Release) -> str:
        """The driver that a release needs, where a text does not tell which one is there."""
        need = oldest_driver(row, os=self.os)
        is_open = self._of_text and self.target.driver is None and self.os in ("linux", "wsl2")
        return f" (driver {need} or newer)" if is_open and need else ""

    def reinstall_best(self, why: str) -> tuple[Fix, ...]:
        """Advise the best release for this machine; empty when none fits."""
        row = self.best_release()
        if row and (other := self._possible_pythons - {*row.python}):
            python = structs.replace(self.facts.python, version=Known(min(other, key=numbers), "its TensorFlow"))
            return replace(self, facts=structs.replace(self.facts, python=python)).reinstall_best(why)
        if "CUDA libraries" in why and (left := self._left_without_extra):
            of_1 = self._for_tensorflow_1(row, why) if row else ()
            return self._of_one_cuda(left, why) or (*of_1, _OF_ITS_RELEASE)
        if row:
            return (*self._for_tensorflow_1(row, why), *self._install(row, why))
        if row := self.best_release(this_python=False):
            new = f"TensorFlow {row.version} with Python {self.python_for(row)}"
            made = self.installation(row)
            is_told = made.interpreter or made.only_conda_brings_python  # by the command itself
            how = "" if is_told else " (uv or conda can install that Python)"
            text = f"{self._verb(row)} {new}{how}: {why}{self._driver_for(row)}"
            return (*self._for_tensorflow_1(row, why), Fix(text=text, commands=self.new_environment(row)))
        if row := self.best_release(this_python=False, own_cuda=False):
            own = self.with_cuda_beside(row, f"{self._verb(row)} TensorFlow {row.version}", why)
            return (*self._for_tensorflow_1(row, why), *own)
        return ()

    @property
    def _left_without_extra(self) -> tuple[str, ...]:
        """What a text leaves of releases whose programs may not run with one whose extra brings CUDA."""
        known = self.facts.tensorflow.version
        left = known.one_of if self._of_text and isinstance(known, Unknown) else ()
        return () if any(at_least(one, "2.14") for one in left) else left

    def _of_one_cuda(self, versions: tuple[str, ...], why: str) -> tuple[Fix, ...]:
        """An environment for the newest of these releases, where all of them load the same CUDA and cuDNN."""
        rows = [one for one in candidates(self.matrix, self.target.platform) if one.gpu and one.version in versions]
        loaded = {(one.cuda, major(one.cudnn or "")) for one in rows}
        in_image = self.image or self.is_in_container
        if in_image or len(loaded) != 1 or {one.version for one in rows} != {*versions}:
            return ()
        text = f"{self._verb(rows[0])} TensorFlow {rows[0].version} in an environment of its own"
        return tuple(self.with_cuda_beside(rows[0], text, why))

    def _for_tensorflow_1(self, best: Release, why: str) -> Iterator[Fix]:
        """The newest TensorFlow 1 that runs here, for a program of that, which the best release cannot run."""
        of_0 = "0" in {*map(major, self._possible_releases)}  # whose programs 1.15 does not run, either
        if self.image or of_0 or not self.runs_tensorflow_1 or major(best.version) == "1":
            return
        rows = (row for row in candidates(self.matrix, self.target.platform) if major(row.version) == "1" and row.gpu)
        without_image = self.os == "windows" and not self._installed_version()
        if (self.knows_gpu or without_image) and (row := next(filter(self.can_use, rows), None)):
            # its CUDA 10.0 has no kernels for a newer one
            on = "" if self.knows_gpu else ", on a GPU of compute capability 7.5 or lower"
            text = f"For a program of TensorFlow 1{on}, install TensorFlow {row.version}"
            yield from self.with_cuda_beside(row, text, why)
            return
        for option in self._images("<2"):
            yield self._in_container(option, f"For a program of TensorFlow 1, use {option.title}")

    def _images(self, wanted: str) -> Iterator[Option]:
        """Images of some releases that serve this machine."""
        request = replace(self.request, specifier=SpecifierSet(wanted))
        other = self.on_jetson or self._serves
        return (option for option in alternatives(request) if option.kind == "container" and not other)

    @property
    def _serves(self) -> bool:
        """Whether it is an image of TensorFlow Serving, which no image without a server replaces."""
        return "/serving" in (self.image or "")

    def for_cpu(self) -> tuple[Fix, ...]:
        """What a plan ranks first where there is no GPU; empty where there may be one."""
        imported = self._of_text and self._installed_version() and not self.log.stops_import
        if not has_no_gpu(self.facts) or self.os == "macos" or imported:
            return ()
        option = next(on_cpu(self.request, None, self._pythons), None)
        if option is None:
            return ()
        here = option.python == self.target.python
        commands = self.pip_install(f"{option.package}=={option.tensorflow}") if here else option.commands["pip"]
        return (Fix(text=f"Install {option.title}: this machine has no NVIDIA GPU", commands=commands),)

    def best_release(self, *, this_python: bool = True, own_cuda: bool = True) -> Release | None:
        """The newest stable release that meets every constraint of this machine; None: there is none.

        Args:
            this_python: only releases with a wheel for the Python under test.
            own_cuda: only releases whose extra brings CUDA along.
        """
        if self.image or self.on_jetson or self.target.os == "macos":  # 1.1 was the last release with CUDA there
            return None
        target = self.target if this_python else structs.replace(self.target, python=None)
        request = PlanRequest(self.matrix, target)
        rows = [row for row in candidates(self.matrix, target.platform) if row.extra or not own_cuda]
        if self._is_of_keras_2:
            rows.sort(key=lambda row: at_least(row.version, KERAS_3) is not False)
        # a release whose extra has a bug computes on the CPU as well as any
        harmless = {"known-issue"} if has_no_gpu(self.facts) else set[str]()
        return next((row for row in rows if {one.constraint for one in violations(request, row)} <= harmless), None)

    @property
    def _is_of_keras_2(self) -> bool:
        """True if a text is about a release before Keras 3, whose program the releases of today do not run."""
        versions = self._possible_releases
        if not versions:  # 2.11 has moved this folder of the sources, from which lines are printed
            return self._of_text and any("tensorflow/stream_executor/" in one.text for one in self.log.messages)
        return self._of_text and all(at_least(one, KERAS_3) is False for one in versions)

    def with_cuda_beside(self, row: Release, text: str, why: str = "") -> Iterator[Fix]:
        """A new environment for a release without an extra for CUDA; 9.1 and older is no longer installable so."""
        # cuBLAS and cuDNN of CUDA 9 fail on Turing: compat_matrix.yaml, turing-cuda-9
        too_old = "7.5" in self.target.capabilities and at_least(row.cuda, "10") is False
        if self.image or self.on_jetson or too_old or not self.can_use(row):
            return
        libraries = f"CUDA {row.cuda}" + (f" and cuDNN {row.cudnn}" if row.cudnn else "")
        commands = self.installation(row).commands
        way = commands.get("conda") or next(iter(commands.values()), ())
        if "cuda" in " ".join(way):
            yield Fix(text=f"{text} with {libraries}{': ' if why else ''}{why}", commands=way)

    def built_for(self, cuda: str, cudnn: str | None, *, lacks_cudnn: bool) -> tuple[Fix, ...]:
        """The newest release for this Python that is built for a CUDA and a cuDNN which are installed."""
        if self.image or self.on_jetson:
            return ()
        for row in candidates(self.matrix, self.target.platform):
            same = row.cuda and row.cudnn and minor(row.cuda) == minor(cuda)
            same = same and (not cudnn or takes_cudnn(row, cudnn))
            if same and self.target.python in (None, *row.python) and self.can_use(row):
                text = f"Install TensorFlow {row.version}, which is built for CUDA {minor(cuda)} and cuDNN {row.cudnn}"
                if lacks_cudnn and not self.installation(row).cuda_from_pip:
                    text = f"Install TensorFlow {row.version} in an environment of its own"
                    return (*self.with_cuda_beside(row, text),)
                return (Fix(text, self.install_tensorflow(row)),)
        return ()

    def in_image(self, row: Release) -> tuple[Fix, ...]:
        """The published image of a release, where the program runs in another one."""
        if self.image or not self.is_in_container:
            return ()
        own = [one for one in self._images(f"=={minor(row.version)}.*") if one.package == PUBLISHED]
        text = "Use the image of this release: it has"
        return tuple(self._in_container(one, f"{text} CUDA {one.cuda} and cuDNN {one.cudnn}") for one in own)

    def _in_container(self, option: Option, text: str) -> Fix:
        """The image, which wants a driver and a toolkit that a text need not show, with the program's folder in it."""
        commands = next(iter(option.commands.values()))
        if option.kind != "container" or not self._of_text:
            return Fix(text, commands)
        needs: list[str] = []
        if self.target.driver is None and option.min_driver:
            needs.append(f"driver {option.min_driver} or newer")
        if not self.is_in_container:
            on_windows = self.host == "windows"
            needs.append("Docker Desktop with WSL2" if on_windows else "Docker with the NVIDIA Container Toolkit")
        if self.host != "windows":
            commands = tuple(one.replace(" -it ", ' -v "$PWD":/work -w /work -it ') for one in commands)
        return Fix(f"{text} ({', '.join(needs)})" if needs else text, commands)

    def can_use(self, row: Release) -> bool:
        """Whether a release can use the GPU here; the one that is there may wait for a driver, or compile its PTX."""
        if not row.gpu:
            return not CONSTRAINTS["macos"](self.request, row)
        target = structs.replace(self.target, python=None)
        is_there = row.version == self._installed_version()
        later = {"known-issue", "python"} | ({"driver"} if is_there else set())
        return broken_within(PlanRequest(self.matrix, target, compiles=is_there), row, frozenset(later)) is not None

    def beside_the_wheels(self, why: str) -> tuple[Fix, ...]:
        """Where no wheel fits: conda-forge's own build and container images, the newest TensorFlow first."""
        found = [one for one in alternatives(self.request) if one.kind == "jetpack" or not self.on_jetson]
        if image := self.image:  # another one of the same publisher first
            other = [option for option in found if option.kind == "container" and image not in option.title]
            found = [] if self._serves else other
            found.sort(key=lambda option: not image.startswith(f"{option.package}:"))
        return tuple(self._in_container(option, f"{option.title}: {why}") for option in found)

    def new_environment(self, row: Release) -> tuple[str, ...]:
        """Make an environment in which a release works, by the tool that is there and can bring its Python along."""
        conda = next((tool for tool in ("conda", "mamba", "micromamba") if tool in self._tools), None)
        made = self.installation(row)
        ways = made.commands
        first = ("uv",) if "uv" in self._tools else ("conda",) if conda else ()
        first = ("conda",) if made.only_conda_brings_python else first
        commands = next((ways[way] for way in (*first, "pip", *ways) if way in ways), ())
        return tuple(re.sub(r"^conda(?= (?:create|run) )", conda or "conda", command) for command in commands)

    def install_driver(self, minimum: str | None = None) -> Fix:
        """Install or update the NVIDIA driver the way this distribution does it."""
        need, have = self._driver_needed(minimum), self.target.driver
        what = f"NVIDIA driver {need} or newer" if need else "a newer NVIDIA driver" if have else "the NVIDIA driver"
        last = self.request.last_branch
        if last and not self.request.driver_exists(need):
            return Fix(f"No driver will do: it takes {need} or newer, and branch {last} is the last for this GPU")
        upto = f", up to branch {last}, the last for this GPU" if last else ""
        what += upto and f"{upto},"
        if self.os == "wsl2":  # NVIDIA CUDA on WSL user guide: "do not install any Linux display driver"
            text = f"Install {what} in Windows (not inside WSL), then restart WSL"
            return Fix(text=text, commands=("wsl.exe --shutdown",))
        if self.host == "windows":
            return Fix(text=f"Install {what} from {NVIDIA_DRIVERS} and restart Windows")
        if self.is_in_container:
            return Fix(text=f"Install {what} and restart (on the host, not in this container)")
        distribution = value_or(self.facts.host.distribution_id, "")
        commands = _DRIVER_COMMANDS.get(distribution)
        if commands is None or (last and int(last) < _BRANCHES.get(distribution, _NEWEST)):
            return Fix(text=f"Install {what} with your distribution's package, or from {NVIDIA_DRIVERS}")
        check = f" (check that it is {need} or newer{upto}: nvidia-smi)" if need else ""
        version = value_or(self.facts.host.distribution_version, "")
        ways = (_of_its_time(one, version) for one in commands)
        return Fix(text=f"Install the NVIDIA driver and restart{check}", commands=(*ways, "sudo reboot"))

    def _driver_needed(self, minimum: str | None) -> str | None:
        """That of the image, where TensorFlow is part of one; none that is as old as the driver which does not do."""
        have = self.target.driver
        if self.image:
            own = self.driver_of_image  # where it is unknown, the number would be a guess
            minimum = max(filter(None, (minimum, own)), key=numbers) if own else None
        if minimum and (first := self.request.least_branch):  # an older one does not know the card
            minimum = max(minimum, first, key=numbers)
        return None if minimum and have and driver_reaches(have, minimum) else minimum


def dockerfile(commands: tuple[str, ...]) -> tuple[str, ...]:
    """The lines of a Dockerfile for commands that make an environment; none for other ones."""
    text = "\n".join(commands)
    for pattern, line in _AS_DOCKERFILE:
        text = re.sub(pattern, line, text, flags=re.MULTILINE)
    lines = [*filter(None, text.split("\n")), *((_ENTERED,) if "conda create" in text else ())]
    return tuple(lines) if text.startswith("FROM") and all(re.match("FROM|RUN|ENV", one) for one in lines) else ()


def _of_its_time(command: str, version: str) -> str:
    """The command as Ubuntu up to 18.04 has it, whose tool has no "install" yet."""
    return command.replace("-drivers install", "-drivers autoinstall") if at_least("18.04", version) else command


def lasting(fix: Fix, settings: tuple[Setting, ...]) -> Fix:
    """Return the fix, whose sentence names the lines that would set its variables again in every new shell."""
    left: dict[str, str] = {}  # variable → what the commands leave in it
    for command in fix.commands:
        if unset := _UNSET.search(command):
            left |= dict.fromkeys(unset[1].split(), "")
        elif export := _EXPORT.fullmatch(command):
            left[export[1]] = " ".join(shlex.split(export[2]))
    again = (one for one in settings if one.name in left and not one.file.endswith(".json"))
    lines = [
        f"line {one.line} of {one.file}"
        for one in again
        if set(filter(None, one.value.split(":"))).isdisjoint(left[one.name].split(":"))  # nothing of it is kept
    ]
    if not lines:
        return fix
    text = f"{fix.text}; also delete {', '.join(lines)}, which sets it in every new shell"
    return structs.replace(fix, text=text)
