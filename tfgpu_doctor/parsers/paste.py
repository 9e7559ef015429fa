"""Pasted text → the same facts that the probes find, each with the line that tells it.

What somebody writes about a machine ("CUDA 12.4") and what a program prints about it become facts of the same
fields; the sentences in which programs fail become :class:`~tfgpu_doctor.facts.Message`. Nothing is judged here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from tfgpu_doctor.facts import (
    Build,
    CallResult,
    Cuda,
    Cudnn,
    CudnnFile,
    Driver,
    Fact,
    Facts,
    Host,
    Known,
    LibraryFile,
    Message,
    Nvcc,
    Package,
    PciGpu,
    Python,
    SmiResult,
    TensorFlow,
    TfDevice,
    Toolkit,
    Unknown,
    value_or,
)
from tfgpu_doctor.parsers import (
    form,
    messages,
    nvidia_smi,
    pip_install,
    pip_list,
    surroundings,
    tensorflow_devices,
)
from tfgpu_doctor.parsers.form import Stated
from tfgpu_doctor.parsers.lines import Excerpt, Line
from tfgpu_doctor.parsers.results import CURESULTS
from tfgpu_doctor.parsers.surroundings import Surroundings

NOT_SAID = Unknown("the text does not say")
_NOT_NVIDIA = re.compile(
    r"\b(?:amd|radeon|intel|iris|uhd|hd graphics|apple|m[1-4]\b|arc\b|rx ?\d{3,4}|vega|none|cpu only|no gpu)",
    re.IGNORECASE,
)
_NVIDIA = re.compile(
    r"nvidia|ge ?force|\b[gr]tx|quadro|tesla|titan|\bmx ?\d{3}|\b[avhtlpk]\d{1,3}\b|\bgt[sx]? ?\d{3}|\d{3,4} ?ti\b",
    re.IGNORECASE,
)
_PLACEHOLDER = re.compile(r"[$%]\{?[A-Za-z_]|^%|<[^>]+>|\.\.\.|^\[|path/to")
_NVCC = re.compile(r"Cuda compilation tools, release (?P<release>[\d.]+), V(?P<version>[\d.]+)")
_SMI_ROW = re.compile(r"NVIDIA-SMI \d|MiB ?/|Driver Version|[\d.]+ ?MiB \||rocesses:|MIG devices")
_TF_IMAGE = re.compile(r"\btensorflow/(?:tensorflow|serving):(?P<version>\d+\.\d+(?:\.\d+)?(?:rc\d+)?)")
_WHEEL = re.compile(r"\b(?P<name>tensorflow[\w]*|tf_nightly\w*)-(?P<version>\d+\.\d+[\w.]*?)-cp(?P<python>\d{2,3})-")
_GPU_PACKAGE = re.compile(
    r"\b(?P<name>tensorflow-gpu|tf-nightly-gpu|tf-nightly|nvidia-tensorflow|tensorflow-cpu|tensorflow-macos|tensorflow-rocm|tensorflow-directml|intel-tensorflow)\b"
)
_PLAIN_PACKAGE = re.compile(r"\bpip\d?(?:\.\d+)? install (?:-\S+ )*['\"]?tensorflow(?![-\w])")
# TensorFlow's log gives its age away by the folder of the file that speaks, and with it the CUDA of its wheels:
# tensorflow/tsl 2.11 to 2.14, external/local_tsl and local_xla 2.15 to 2.19, no folder from 2.20 on
_ERAS = (
    ("12", re.compile(r"external/local_(?:tsl|xla)/|\b[EWI]0000 00:00:\d+\.\d+ +\d+ \w+\.cc:")),
    ("11", re.compile(r"tensorflow/tsl/|tensorflow/compiler/xla/stream_executor/cuda/")),
)
_SITE = re.compile(
    r"[/\\](?:lib[/\\])?python(?P<version>[23]\.\d{1,2})[/\\](?:site|dist)-packages|[/\\]Python(?P<digits>[23]\d{1,2})(?:-\d\d)?[/\\]lib[/\\]",
    re.IGNORECASE,
)
_INSTALLED_BY = re.compile(
    r"(?<![\w-])(?P<name>cudatoolkit|cuda-toolkit|cuda-runtime|cudnn|cuda-nvcc)==?(?P<version>\d+(?:\.\d+)*)"
)
_CUDA_SENTENCE = re.compile(
    r"(?:\binstall\w*|\bhave\b|\busing\b|\bwith\b|\bupgraded to\b|\bset ?up\b|^|\bmy\b)[^.;]{0,40}?\b(?:CUDA|GPU)(?: toolkit| version| ver\w*)*(?: is| to)?[ *_:=-]*v?(?P<version>\d{1,2}\.\d)\b"
    r"|[/\\]cuda-(?P<path>\d{1,2}\.\d)\b",
    re.IGNORECASE,
)
_CUDNN_SENTENCE = re.compile(
    r"(?:\binstall\w*|\bhave\b|\busing\b|\bwith\b|\buse\b|^|\bmy\b)[^.;]{0,40}?\bcuDNN(?: ver\w*)?(?: is)?[ *_:=-]*v?(?P<version>\d{1,2}(?:\.\d+){0,2})\b",
    re.IGNORECASE,
)
# a sentence about what a program wants or a page says, no statement of what is there
_NOT_HERE = re.compile(
    r"looking for|instead of|requires?\b|needs?\b|asks? for|asking for|Download and install|built (?:for|against|with)|compiled|expects?|should i|CUDA Version:|nvidia-smi|supports?\b|not found|could not|cannot open|or (?:earlier|later|newer|above)|downloading|from this URL|you may install",
    re.IGNORECASE,
)
_TF_SENTENCE = re.compile(
    r"\btensor ?flow(?:-gpu)?(?: version| ver| v)?(?: is| =|:| -)? ?v?(?P<version>[12]\.\d{1,2}(?:\.\d{1,2})?)\b",
    re.IGNORECASE,
)
_CONDA_VARIANT = re.compile(r"(?P<cpu>mkl|eigen|cpu)|(?P<gpu>gpu|cuda)")
_NOTEBOOK = re.compile(
    r"\bjupyter\b|\bnotebook\b|\bipykernel\b|In ?\[\d*\]:|<ipython-input|\bkernelspec\b|\bspyder\b|\bpycharm\b|\bvs ?code\b",
    re.IGNORECASE,
)


def read(excerpt: Excerpt) -> Facts:
    """All that the text tells.

    >>> from tfgpu_doctor.parsers import lines
    >>> facts = read(lines.read([b"CUDA: 12.4\\nfailed call to cuInit: CUDA_ERROR_NO_DEVICE: no CUDA-capable device"]))
    >>> facts.cuda.toolkits.value[0].version, facts.driver.cuda_init.value.code
    ('12.4', 100)
    """
    return _Paste(excerpt).facts()


class _Paste:
    """One text, and what the parsers found in it."""

    def __init__(self, excerpt: Excerpt) -> None:
        self.lines: Sequence[Line] = excerpt.lines
        self.stated = form.parse(self.lines)
        self.seen = tensorflow_devices.parse(self.lines)
        self.listed = pip_list.parse(self.lines)
        self.events = pip_install.parse(self.lines)
        self.where: Surroundings = surroundings.read(self.lines, self._stated_value("os"))
        self.messages = (*messages.read(self.lines), *self._circumstances())
        self.smi_line = next((line.number for line in self.lines if _SMI_ROW.search(line.text)), None)
        text = "\n".join(line.text for line in self.lines) if self.smi_line else ""
        self.smi = nvidia_smi.parse(text)

    def facts(self) -> Facts:
        return Facts(
            host=self._host(),
            driver=self._driver(),
            gpus=self._gpus(),
            cuda=self._cuda(),
            cudnn=self._cudnn(),
            python=self._python(),
            variables=self._variables(),
            tensorflow=self._tensorflow(),
            messages=Known(self.messages, "the text"),
        )

    # ------------------------------------------------------------------------- helpers

    def _said(self, *kinds: str) -> list[Message]:
        return [message for message in self.messages if message.kind in kinds]

    def _all_stated(self, key: str) -> list[Stated]:
        return [one for one in self.stated if one.key == key and one.value]

    def _stated_value(self, key: str) -> str | None:
        return next((one.value for one in self._all_stated(key)), None)

    def _stated_fact(self, key: str) -> Fact[str]:
        return next((Known(one.value, _stated_at(one)) for one in self._all_stated(key)), NOT_SAID)

    def _find(self, pattern: re.Pattern[str], but: re.Pattern[str] | None = None) -> tuple[re.Match[str], int] | None:
        """The first line of that form, and none of the form `but`."""
        lines = (line for line in self.lines if but is None or not but.search(line.text))
        return next(((m, line.number) for line in lines if (m := pattern.search(line.text))), None)

    def _circumstances(self) -> Iterator[Message]:
        """What was done around the failure, in the form of messages."""
        where = self.where
        for line, asked in where.starts:
            yield Message("container-start", line, self._text_of(line), {"gpus": "yes" if asked else "no"})
        if where.building:
            yield Message("image-build", where.building, self._text_of(where.building))
        if where.hides_all:
            yield Message("hides-every-gpu", where.hides_all, self._text_of(where.hides_all))
        yield from self._of_installers()
        yield from self._of_packages()
        yield from self._eras()
        pythons = {".".join(one.value.split(".")[:2]): one for one in self._all_stated("python")}
        if len(pythons) > 1:
            last = list(pythons.values())[-1]
            yield Message("other-environment", last.line, self._text_of(last.line))
        if notebook := self._find(_NOTEBOOK):
            yield Message("notebook", notebook[1], self._text_of(notebook[1]))
        for gpu in self.seen.gpus:
            if gpu.created:
                values = {"capability": gpu.compute_capability} if gpu.compute_capability else {}
                yield Message("gpu-created", gpu.line, self._text_of(gpu.line), values)
        if self.seen.build.is_cuda_build is False and self.seen.build.line:
            yield Message("built-without-cuda", self.seen.build.line, self._text_of(self.seen.build.line))

    def _of_installers(self) -> Iterator[Message]:
        for event in self.events:
            values: dict[str, str] = {}
            kind = _EVENTS.get(event.kind)
            if event.kind in ("no-version", "no-match"):
                values = {"requirement": event.requirement}
                if event.kind == "no-version":
                    values["versions"] = ", ".join(event.versions) or "none"
            elif event.kind == "wheel-refused":
                values = {"package": event.name, "version": event.version, "tags": " ".join(event.tags)}
            elif event.kind == "conflict":
                values = {
                    "package": event.name,
                    "need": event.requirement,
                    "other": event.other,
                    "has": event.other_version or "",
                }
            elif event.kind in ("installed", "satisfied"):
                values = {"package": event.name, "version": event.version}
            elif event.kind in ("build-failed", "removed", "uv-no-wheels", "no-extra"):
                values = {"package": event.name, "version": event.version}
            if kind and (event.kind in _ANY_PACKAGE or event.name.startswith(_FAMILY)):
                yield Message(kind, event.line, self._text_of(event.line), values)

    def _of_packages(self) -> Iterator[Message]:
        """What the lists show of TensorFlow itself: conda's variant, and a second one beside it."""
        found = {}
        for one in self.listed:
            if one.name in (
                "tensorflow",
                "tensorflow-gpu",
                "tensorflow-base",
                "tensorflow-cpu",
                "tf-nightly",
                "tensorflow-mkl",
                "tensorflow-eigen",
            ):
                found[one.name, one.manager] = one
                if one.build and (variant := _CONDA_VARIANT.search(one.build)):
                    yield Message(
                        "conda-build",
                        one.line,
                        self._text_of(one.line),
                        {"variant": variant.lastgroup or "", "version": one.version},
                    )
            if select := re.fullmatch(r"_tflow_(\d)(\d{1,2})0_select", one.name):
                found["tensorflow", "conda"] = one
                version = f"{select[1]}.{select[2]}.0"
                yield Message("conda-tensorflow", one.line, self._text_of(one.line), {"version": version})
        managers = {manager for _, manager in found}
        stated = any(re.search(r"\bpip\d? install .*tensorflow", line.text) for line in self.lines)
        if len(managers) == 2 or (
            "conda" in managers and stated and any(n.startswith("_tflow") for n in (o.name for o in self.listed))
        ):
            first = next(iter(found.values()))
            yield Message("two-tensorflows", first.line, self._text_of(first.line))

    def _eras(self) -> Iterator[Message]:
        for cuda, pattern in _ERAS:
            if found := self._find(pattern):
                yield Message("log-era", found[1], self._text_of(found[1]), {"cuda": cuda})
                return

    def _text_of(self, number: int) -> str:
        return next(line.text.strip() for line in self.lines if line.number == number)[: messages.SHOWN]

    # ---------------------------------------------------------------------------- host

    def _host(self) -> Host:
        where = self.where
        stated = next(iter(self._all_stated("os")), None)
        source = f"line {where.os_line}" if where.os_line else _stated_at(stated) if stated else "the text"
        return Host(
            os=Known(where.os, source) if where.os else NOT_SAID,
            distribution=Known(stated.raw[:80], _stated_at(stated)) if stated else NOT_SAID,
            distribution_id=_first_word(stated),
            container=Known(where.container, f"line {where.container_line}") if where.container else NOT_SAID,
            pci_gpus=self._stated_cards(),
        )

    def _stated_cards(self) -> Fact[tuple[PciGpu, ...]]:
        """The cards that somebody names, which is no proof that a driver sees them; none, when they are all others'."""
        named = self._all_stated("gpu")
        cards = [one for one in named if not _NOT_NVIDIA.search(one.value) or _NVIDIA.search(one.value)]
        if cards:
            found = tuple(PciGpu(address="", device_id="", name=one.value) for one in cards[:1])
            return Known(found, _stated_at(cards[0]))
        return Known((), _stated_at(named[0])) if named else NOT_SAID

    # -------------------------------------------------------------------------- driver

    def _driver(self) -> Driver:
        kernel = next((m for m in self._said("kernel-version")), None)
        module = (kernel.values.get("version") or kernel.values.get("module")) if kernel else None
        running = _known(module is not None or None, kernel) if kernel else NOT_SAID
        if stopped := self._said("kernel-driver-not-running", "smi-no-driver"):
            running = Known(False, _at(stopped[0])) if module is None else running
        return Driver(
            version=self._driver_version(module, kernel),
            cuda_supported=Known(self.smi.cuda_version, self._smi_at) if self.smi.cuda_version else NOT_SAID,
            kernel_module=_known(_trimmed(module), kernel),
            kernel_module_loaded=running,
            libcuda=self._libcuda(),
            nvml_init=self._nvml(),
            cuda_init=self._cuinit(),
            nvidia_smi=self._smi_result(),
            xid_events=_known(tuple(m.text for m in self._said("xid")) or None, *self._said("xid")[:1]),
        )

    @property
    def _smi_at(self) -> str:
        return f"line {self.smi_line}: nvidia-smi"

    def _driver_version(self, module: str | None, kernel: Message | None) -> Fact[str]:
        if self.smi.driver_version:
            return Known(self.smi.driver_version, self._smi_at)
        if module and kernel:
            return Known(_trimmed(module) or module, _at(kernel))
        return self._stated_fact("driver")

    def _libcuda(self) -> Fact[tuple[LibraryFile, ...]]:
        for message in self._said("library-not-opened", "loader-error", "libcuda-not-loaded"):
            name = message.values.get("library", "")
            if message.kind == "libcuda-not-loaded" or re.search(r"libcuda\.so|nvcuda\.dll", name):
                return Known((), _at(message))
        version = next(iter(self._said("libcuda-version")), None)
        if version and self.where.os != "wsl2":
            file = LibraryFile(path="libcuda.so.1", version=_trimmed(version.values["version"]))
            return Known((file,), _at(version))
        return NOT_SAID

    def _nvml(self) -> Fact[CallResult]:
        for message in self._said("nvml-mismatch"):
            return Known(CallResult(code=18, message="Driver/library version mismatch"), _at(message))
        return NOT_SAID

    def _cuinit(self) -> Fact[CallResult]:
        for message in self._said("cuinit-failed"):
            values = message.values
            number = values.get("code") or values.get("result") or values.get("number")
            code = CURESULTS.get(values.get("name", ""), int(number) if number else None)
            if code is not None:
                words = next((n for n, c in CURESULTS.items() if c == code), None)
                return Known(CallResult(code=code, message=message.text[-120:], name=words), _at(message))
        if compat := self._said("forward-compatibility"):
            return Known(CallResult(code=804, message="forward compatibility refused"), _at(compat[0]))
        return NOT_SAID

    def _smi_result(self) -> Fact[SmiResult]:
        if self.smi_line is None and not self.smi.failure:
            return NOT_SAID
        result = SmiResult(
            exit_code=1 if self.smi.failure else 0,
            output=self.smi.failure or "",
            driver_version=self.smi.driver_version,
            cuda_version=self.smi.cuda_version,
        )
        return Known(result, self._smi_at)

    # ---------------------------------------------------------------------------- GPUs

    def _gpus(self) -> Fact[Any]:
        if self.smi.gpus:
            return Known(self.smi.gpus, self._smi_at)
        logged = tensorflow_devices.gpu_facts(self.seen)
        return Known(logged, f"line {self.seen.gpus[0].line}: TensorFlow's log") if logged else NOT_SAID

    # --------------------------------------------------------------------- CUDA, cuDNN

    def _cuda(self) -> Cuda:
        kits = [
            Toolkit(path=one.raw[:80], version=one.value, source=_stated_at(one), via="stated")
            for one in self._all_stated("cuda")
        ]
        kits += self._mentioned_toolkits(bool(kits))
        nvcc = self._find(_NVCC)
        if nvcc:
            source = f"line {nvcc[1]}: nvcc"
            kits.insert(0, Toolkit(path="nvcc", version=nvcc[0]["version"], source=source, via="PATH"))
        return Cuda(
            toolkits=Known(_distinct(kits), kits[0].source) if kits else NOT_SAID,
            nvcc=Known(Nvcc(path="nvcc", version=nvcc[0]["version"]), f"line {nvcc[1]}") if nvcc else NOT_SAID,
        )

    def _mentioned_toolkits(self, stated: bool) -> Iterator[Toolkit]:
        """Toolkits that a conda command installs, that a path names, or that a sentence says are installed."""
        for line in self.lines:
            for match in _INSTALLED_BY.finditer(line.text):
                if match["name"] != "cudnn":
                    yield Toolkit(
                        path="conda", version=match["version"], source=f"line {line.number}: {match[0]}", via="conda"
                    )
            if not stated and not _NOT_HERE.search(line.text) and (match := _CUDA_SENTENCE.search(line.text)):
                yield Toolkit(
                    path=match[0], version=match["version"] or match["path"], source=f"line {line.number}", via="stated"
                )

    def _cudnn(self) -> Cudnn:
        stated = self._all_stated("cudnn")
        files = tuple(CudnnFile(path=_stated_at(one), version=one.value, source="stated") for one in stated)
        for line in self.lines:
            for match in _INSTALLED_BY.finditer(line.text):
                if match["name"] == "cudnn":
                    files += (
                        CudnnFile(path=f"line {line.number}: {match[0]}", version=match["version"], source="conda"),
                    )
            if not stated and not _NOT_HERE.search(line.text) and (match := _CUDNN_SENTENCE.search(line.text)):
                files += (CudnnFile(path=f"line {line.number}", version=match["version"], source="stated"),)
        runtime = next(iter(self._said("cudnn-version-differs")), None)
        loaded = next(iter(self._said("cudnn-loaded")), None)
        found = runtime.values["runtime"] if runtime else _packed(loaded.values["version"]) if loaded else None
        return Cudnn(
            installed=Known(files, files[0].path) if files else NOT_SAID,
            runtime=_known(_dotted(found), runtime or loaded),
        )

    # -------------------------------------------------------------------------- Python

    def _python(self) -> Python:
        version = self._stated_fact("python")
        if isinstance(version, Unknown) and (wheel := self._find(_WHEEL)):
            digits = wheel[0]["python"]
            version = Known(f"{digits[0]}.{digits[1:]}", f"line {wheel[1]}: the wheel's name")
        if isinstance(version, Unknown) and (site := self._find(_SITE)):
            digits = site[0]["digits"] or ""
            version = Known(site[0]["version"] or f"{digits[0]}.{digits[1:]}", f"line {site[1]}: a path")
        return Python(version=version, wheel_platform=self._platform(), packages=self._packages())

    def _packages(self) -> Fact[tuple[Package, ...]]:
        found: dict[tuple[str, str], Package] = {}
        lines = [one.line for one in self.listed]
        for one in self.listed:
            if one.version:
                found[one.name, one.version] = Package(
                    name=one.name, version=one.version, location=f"line {one.line}", installer=one.manager
                )
        for event in self.events:
            if event.kind in ("installed", "satisfied") and event.version:
                lines.append(event.line)
                found[event.name, event.version] = Package(
                    name=event.name, version=event.version, location=f"line {event.line}", installer="pip"
                )
        return Known(tuple(found.values()), f"line {min(lines)}: packages") if found else NOT_SAID

    def _platform(self) -> Fact[str]:
        text = " ".join(one.raw for one in self._all_stated("os")).lower()
        arm = "arm64" in text or "aarch64" in text or re.search(r"\bm[1-4]\b|apple silicon|jetson|jetpack", text)
        platform = {
            "windows": "windows_amd64",
            "macos": "macos_arm64" if arm else "macos_x86_64",
        }.get(self.where.os or "linux", "linux_aarch64" if arm else "linux_x86_64")
        return Known(platform, "the text" if self.where.os else "assumed, for the text does not say")

    # ---------------------------------------------------------------------- TensorFlow

    def _tensorflow(self) -> TensorFlow:
        version = self._stated_fact("tensorflow")
        if isinstance(version, Unknown):
            found = self._find(_TF_IMAGE) or self._find(_WHEEL) or self._find(_TF_SENTENCE, but=_NOT_HERE)
            version = Known(found[0]["version"], f"line {found[1]}") if found else self._listed_version()
        return TensorFlow(
            version=version,
            distribution=self._distribution(value_or(version, None)),
            build=self._build(),
            devices=self._devices(),
        )

    def _distribution(self, version: str | None) -> Fact[str]:
        found = self._find(_GPU_PACKAGE)
        if found and (version is None or _may_be(found[0]["name"], version)):
            return Known(found[0]["name"], f"line {found[1]}")
        if plain := self._find(_PLAIN_PACKAGE):
            return Known("tensorflow", f"line {plain[1]}")
        old = version is not None and re.match(r"1\.|2\.0", version)
        if old and any("cpu" not in line.text for line in self.lines):
            return Known("tensorflow-gpu", "assumed: up to 2.0 the GPU build had this name")
        return NOT_SAID

    def _listed_version(self) -> Fact[str]:
        """The version in a list of packages, or of what pip has just installed."""
        for name in ("tensorflow", "tensorflow-gpu", "tensorflow-cpu", "tensorflow-base", "tf-nightly"):
            for package in value_or(self._packages(), ()):
                if package.name == name:
                    return Known(package.version, f"{package.location}: {name}")
        return NOT_SAID

    def _build(self) -> Fact[Build]:
        built = self.seen.build
        if built.is_cuda_build is None:
            return NOT_SAID
        build = Build(
            is_cuda_build=built.is_cuda_build,
            is_rocm_build=bool(built.is_rocm_build),
            cuda_version=built.cuda_version,
            cudnn_version=built.cudnn_version,
            compute_capabilities=built.compute_capabilities,
        )
        return Known(build, f"line {built.line}: TensorFlow's build")

    def _devices(self) -> Fact[Any]:
        listed = tensorflow_devices.device_facts(self.seen)
        source = "TensorFlow's list of devices"
        if any(device.kind == "GPU" for device in listed) and self.seen.gpu_count != 0:
            return Known(listed, source)
        if self.seen.gpu_count:
            counted = tuple(
                TfDevice(name=f"/physical_device:GPU:{n}", kind="GPU") for n in range(min(self.seen.gpu_count, 64))
            )
            return Known(counted, f"line {self.seen.some_gpu}: {source}")
        if self.seen.gpu_count == 0:
            return Known(tuple(d for d in listed if d.kind != "GPU"), f"line {self.seen.no_gpu}: {source}")
        return NOT_SAID

    def _variables(self) -> Fact[dict[str, str]]:
        found = {name: value for name, (value, _) in self.where.variables.items() if not _PLACEHOLDER.search(value)}
        lines = ", ".join(str(line) for name, (_, line) in self.where.variables.items() if name in found)
        return Known(found, f"line {lines}") if found else NOT_SAID


# what an installer says → the kind of message; the first four whatever the package, the rest about TensorFlow's family
_ANY_PACKAGE = ("externally-managed", "conda-unsatisfiable", "unresolvable", "conda-no-provider")
_FAMILY = ("tensorflow", "tf-nightly", "tf-keras", "keras", "tensorboard", "nvidia-tensorflow")
_EVENTS = {
    "no-version": "no-distribution",
    "no-match": "no-distribution",
    "wheel-refused": "wheel-not-supported",
    "uv-no-wheels": "no-distribution",
    "no-extra": "no-such-extra",
    "removed": "package-removed",
    "build-failed": "build-failed",
    "conflict": "requirement-conflict",
    "installed": "tensorflow-installed",
    "satisfied": "tensorflow-installed",
    "externally-managed": "externally-managed",
    "conda-unsatisfiable": "conda-unsatisfiable",
    "unresolvable": "conda-unsatisfiable",
    "conda-not-found": "conda-not-found",
    "conda-no-provider": "conda-unsatisfiable",
}


def _known(value: Any, *messages: Message | None) -> Fact[Any]:
    """A fact that a message tells; unknown where there is none."""
    first = next((message for message in messages if message is not None), None)
    return Known(value, _at(first)) if first is not None and value is not None else NOT_SAID


def _at(message: Message) -> str:
    return f"line {message.line}"


def _stated_at(stated: Stated) -> str:
    return f"line {stated.line}, as stated"


def _first_word(stated: Stated | None) -> Fact[str]:
    words = re.findall(
        r"ubuntu|debian|fedora|arch|manjaro|centos|rhel|rocky|linuxmint|pop|suse",
        (stated.value if stated else "").lower(),
    )
    return Known(words[0], _stated_at(stated)) if words and stated else NOT_SAID


def _distinct(kits: list[Toolkit]) -> tuple[Toolkit, ...]:
    seen: dict[str | None, Toolkit] = {}
    for kit in kits:
        seen.setdefault(kit.version, kit)
    return tuple(seen.values())


def _may_be(package: str, version: str) -> bool:
    """Whether a package of that name ever had that version: tensorflow-gpu ended with 2.11."""
    number = re.match(r"(\d+)\.(\d+)", version)
    return number is None or package != "tensorflow-gpu" or (int(number[1]), int(number[2])) <= (2, 11)


def _trimmed(version: str | None) -> str | None:
    """ "375.66.0" as TensorFlow prints it is the driver's "375.66"."""
    return re.sub(r"^(\d{3}\.\d{2,3})\.0$", r"\1", version) if version else None


def _dotted(version: str | None) -> str | None:
    """cuDNN's number as it was printed: "8.0.5", "5005" for 5.0.5, "8600" for 8.6.0."""
    version = version.strip(".") if version else None
    return _packed(version) if version and version.isdecimal() else version


def _packed(number: str) -> str:
    """CUDNN_VERSION: major × 1000 + minor × 100 + patch up to 8, major × 10000 + ... from 9 on (cudnn_version.h)."""
    value = int(number)
    base = 10_000 if value >= 90_000 else 1_000
    return f"{value // base}.{value % base // 100}.{value % 100}"
