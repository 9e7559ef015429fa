"""What people and programs call a distribution of Linux.

>>> distribution("Linux Ubuntu 20.04.6 LTS"), distribution("CentOS"), distribution("Windows 11")
(('ubuntu', '20.04.6'), ('centos', None), (None, None))

Where the pasted output comes from: the operating system, a container, and how that container was started.

>>> from tfgpu_doctor.parsers.lines import Line
>>> where = read([Line(1, "$ sudo docker run -it --rm tensorflow/tensorflow:2.4.1-gpu bash")])
>>> where.container, where.starts, where.image
('docker', ((1, False),), 'tensorflow/tensorflow:2.4.1-gpu')
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from tfgpu_doctor.parsers.lines import Line, any_case

# ------------------------------------------------------------------------------------------ os names

_LONGEST_NAME = 400

# the ids of os-release
_DISTRIBUTIONS = {
    identifier: any_case(pattern)
    for identifier, pattern in {
        "ubuntu": r"k?x?l?ubuntu",
        "debian": r"debian",
        "centos": r"centos",
        "rhel": r"red ?hat|rhel",
        "fedora": r"fedora",
        "sles": r"suse linux enterprise[a-z ]*|sles",
        "opensuse": r"opensuse(?: leap| tumbleweed)?",
        "linuxmint": r"linux ?mint|\bmint",
        "manjaro": r"manjaro",
        "arch": r"\barch(?: linux)?\b",
        "gentoo": r"gentoo",
        "almalinux": r"alma ?linux",
        "rocky": r"rocky(?: linux)?",
        "pop": r"pop!?[_ ]?os",
        "kali": r"kali",
        "nixos": r"nixos",
        "amzn": r"amazon linux|amzn",
        "ol": r"oracle linux",
        "elementary": r"elementary",
        "macos": r"mac ?os(?: x)?|\bos ?x",
    }.items()
}
_VERSION = any_case(r"[a-z()/:.\" -]{0,40}?(\d{1,5}(?:\.\d{1,2}){0,2})")


def distribution(text: str) -> tuple[str | None, str | None]:
    """The id that os-release has for a distribution, and its version; None for what a name does not tell."""
    text = text[:_LONGEST_NAME]
    for identifier, pattern in _DISTRIBUTIONS.items():
        if found := pattern.search(text):
            version = _VERSION.match(text[found.end() :])
            return identifier, version[1] if version else None
    return None, None


# ------------------------------------------------------------------------------------------ platform hints

_ENTERS = re.compile(r"\b(?:docker|podman|nerdctl)(?: container)? exec\b")
_RUN = re.compile(  # and not what NVIDIA's images advise where they find no driver
    r"(?<!Use ')(?<!Use 'nvidia-)\b(?:(?:docker|podman|nerdctl)(?: container)? (?:run|create|exec)"
    r"|nvidia-docker2? +run)\b(?!.*67108864 \.\.\.)"
)
_COMPOSE = re.compile(r"\bdocker[- ]compose\b|^\s*runtime: *nvidia|container_name:|^\s*services: *$")
_BUILD = re.compile(r"\b(?:nvidia-)?docker(?: buildx| image)? build\b")
_FROM = re.compile(r"^\s*FROM +(?:--\S+ +)?(?P<image>[\w./:@-]+)(?: +[Aa][Ss] +\S+)?\s*$")
_BUILT = re.compile(r"^\s*RUN +.*\b(?:python3?|nvidia-smi|pytest)\b(?! -m pip)(?!\S{0,80}-)")
_IMAGE = re.compile(
    r"(?<![\w.-])[.-]{0,3}\b(?P<image>(?:[\w.-]{1,80}/){0,6}(?:tensorflow/(?:tensorflow|serving|models|build)|nvidia/(?:tensorflow|cuda)"
    r"|nvcr\.io/nvidia/[\w-]+|rapidsai/[\w./-]{1,99}|deeplearning-platform-release/[\w./-]{1,99}):[\w.-]{1,128})"
)
# tensorflow/tools/dockerfiles/spec.yml: TF_PACKAGE of the images since 2.1; those with devel hold the sources alone
_TAG = re.compile(
    r"\btensorflow/tensorflow:(?P<tag>(?:latest|nightly|2\.[1-9]\d*(?:\.\d+)?(?:rc\d+)?)(?!.*devel)(?:-[\w-]+)?)$"
)
_HOLDS_TENSORFLOW = re.compile(r"(?:^|/)tensorflow/(?:tensorflow|serving)\b|/(?:tensorflow|tritonserver|tf\d[^\s/:]*):")
_ASKED = re.compile(
    r"--gpus\b|--runtime[= ]['\"]?nvidia|\bnvidia-docker2? +run\b|--device[= ]?\S{0,60}nvidia"
    r"|nvidia\.com/gpu['\"]?: *['\"]?[1-9]|capabilities: *\[.{0,20}gpu|driver: *nvidia|^\s*gpus: *(?:all|\d)"
    r"|runtime: *nvidia|set_gpu_limit\(|\s--nv\b|--rocm\b|default-runtime['\"]?: *['\"]?nvidia|--gres=gpu"
)
_PROMPT = re.compile(r"^(?:\([\w .-]+\) ?)?\w[\w.-]*@[0-9a-f]{12}:")
_POSIX_PROMPT = re.compile(  # user@host:~/work$ of Debian, [user@host work]$ of Red Hat; macOS has the user behind
    r"^\W{0,3}(?:\([\w .-]+\) ?)?\[?\w[\w.-]*@(?!\S*mac)\w[\w.-]*(?::[~/][^\s$#]*| [~/\w][^\s\]]*\]) ?[$#]"
)
_KUBERNETES = re.compile(  # nvidia.com/gpu=all is a device of CDI, as Podman and Docker name it
    r"\bkubectl\b|\b[kK]8s\b(?!/)|^\s*(?:- )?containers: *$|\bkind: *(?:Pod|Deployment|Job|StatefulSet|DaemonSet|TFJob"
    r"|Notebook)\b|nvidia\.com/gpu(?!=)|FailedScheduling|\bkubelet\b|\b(?:kubernetes|k8s|kubeflow|gke|eks"
    r"|aks) (?:cluster|pod|node|job)|\b(?:in|on) (?:a |the |my |our )?(?:k8s|[kK]ubernetes|gke|eks)\b"
    r"|\b[Oo]pen[Ss]hift\b|\bODH\b|\b(?:training|worker|notebook|GPU) pods?\b"
    r"|\bTFJobs?\b|\b[Kk]ubeflow\b|\bKFP\b|\b(?:GKE|EKS|AKS)\b|\bpod spec\b"
)
_APPTAINER = re.compile(
    r"\b(?:singularity|apptainer) (?:exec|run|shell|build|pull|instance)\b|\b(?:with|in|under|by"
    r"|inside) (?:an? )?(?:Singularity|Apptainer)\b|Singularity>|Apptainer>|/\.singularity\.d/"
    r"|\bsingularity image built\b|\bnot running docker, but singularity\b"
)
_APPTAINER_RUN = re.compile(r"\b(?:singularity|apptainer)\b.{0,80}? (?:exec|run|shell|start)\b")
_NV = re.compile(r"\s--(?:nv|nvccli|rocm)\b")  # a GPU that Slurm grants is not handed in without it
_DOCKER_WORD = any_case(
    r"(?:installed (?:from|using|via)|inside|in|using|with|from|official|gpu) (?:a |an |the )?(?:\w+ )?docker\b"
    r"|\b(?:in|inside|within) the container\b|docker (?:image|container|version|desktop)\b|/\.dockerenv"
    r"|tensorflow docker|nvidia[- ]docker|\bbase image\b|\bin-container\b|\bstart (?:a|the) container\b"
    r"|\bdocker ?file\b|\bdocker build\b|\b(?:on|through|this|my) (?:the )?docker\b|在docker|: docker\b"
    r"|^\W*docker\W*$|^docker ?\+|\bdocker tag\b|\bcontainer (?:stopped|exited)\b"
    r"|\b(?:this|in a) container\b|\b(?:the image|pulled) [`'\"]?[\w./-]{2,60}[:_][\w.-]*\d"
)
# where others decide on the driver, on how a container starts, or on the release: a service, an administrator, a
# program's own image; and R, whose settings are not those of a shell
PLACES = {
    "codalab": any_case(r"\bcl run\b|\bcodalab\b|/0x[0-9a-f]{32}\w*/"),
    "sagemaker": any_case(r"\bsagemaker\b"),
    "tao": any_case(r"\b(?:tlt-(?:train|infer|prune|evaluate|export)|tao (?:model )?\w+ train)\b"),
    "no-root": any_case(
        r"\b(?:no|without|not have|n't have|lack(?:ing)?) (?:any )?(?:root|sudo|admin\w*)[ -](?:access|rights?"
        r"|privileges?|permissions?|password)|\b(?:not|n't) (?:an? |the )?(?:sudoer|root user|administrator)\b"
        r"|\bnot in the sudoers\b"
    ),
    "sudo": re.compile(  # sudoers(5), env_reset and secure_path
        r"\bsudo (?!-E)(?:-\w{1,12} ){0,3}(?:[\w./~-]{0,90}/)?python[\d.]*\b"
        r"(?! -m (?:pip|venv)\b| \S*(?:setup|get-pip)\.py)"
    ),
    "comfyui": any_case(r"\bcomfyui\b|\bpython_embeded\b"),
    "kernel": any_case(r"\bjupyter\b|\bipykernel\b|<ipython-input|\bkernelspec\b|\bnotebook (?:cell|kernel|server)"),
    "avx-variant": any_case(r"\b(?:lib)?tensorflow-(?:\w+-)?avx2?\b"),
    # a frame in a function of a file that is neither Python's nor a package's
    "program": re.compile(
        r'^\s*File "(?!<|.*(?:(?:site|dist)-packages|[/\\][Ll]ib[/\\]|ipython))[^"]{1,300}\.py", line \d+, in (?!<)'
    ),
    "r": any_case(
        r"\bpy_call_impl\b|\breticulate\b|\blibrary\((?:keras3?|tensorflow)\)|\(r-(?:tensorflow|reticulate)\)"
    ),
}
# Under WSL2 a Linux nvidia-smi (three numbers) shows Windows' driver (two), of another number; on Linux they are one.
# WSL 1, whose kernel calls itself 4.4.0-…-Microsoft, counts too: that it is no WSL 2 is a matter of its set-up
_WSL = any_case(
    r"microsoft-standard|NVIDIA-SMI (?:4[5-9]|[5-9]\d)\d\.\d+\.\d+ +Driver Version: \d{3}\.\d+ |\d-Microsoft\b"
    r"|/usr/lib/wsl\b|^\s*\S*\s*/mnt/[cd]/"
)
_WSL_WORD = any_case(r"\b(?:wsl ?[12]?|windows subsystem for linux(?: 2)?)\b(?! is(?:n't| not| no)\b)")
# what somebody does without, or may yet use
_NOT_USED = any_case(
    r"(?:\b(?:no|not|without|avoid(?:ing)?|instead of|rather than|switch(?:ing)? to|mov(?:e|ing) to)"
    r"|(?:n['’]t|\bnot|\bnever|\bcannot|\bcant) (?:want(?: to use)?|use|using|have|install|like))(?: the)? $"
)
_NATIVE = any_case(
    r"\b(?:i['’]?m|i am|we are|i work|i run|i develop|development is|running|working) (?:\w+ ){0,2}"
    r"(?:on|in|under) native windows\b"
)
# NVML's error 17. Of ten threads with it eight were of WSL2, and two of containers on it or a virtual machine:
# microsoft/WSL issues 6773, 9166, 9938, 10289, 11865, 12859 and 14339, WSL-libre-linux-kernel 5
_BLOCKED = re.compile("GPU access blocked by the operating system")
_SYSTEMS = {
    "windows": re.compile(
        r"\bon win32\b|\[MSC v\.|^(?:\(\S+\) )?(?:PS )?[A-Z]:\\[^>]*>|[A-Z]:\\{1,2}(?:Users|Program|Windows)"
        r"|[A-Z]:\\[\w .\\-]{1,200}\\site-packages|~\\\w{1,40}\\"
        r"|(?<![\w/:])[A-Za-z]:\\{1,2}[\w ~-]{1,40}(?:\\|\.\w{2,4}\b)"  # a string of Python or JSON doubles them
        r"|\btensorflow\\{1,2}(?:core|stream_executor|compiler|python)\\|\bDLL load failed\b"
        r"|\b\w+\.dll\b|Microsoft Windows \[|\b(?:[Ww]in(?:dows)?|WIN):? ?(?:7|8|8\.1|10|11|server)(?![\dA-Za-z])"
        r"|WinError|win_amd64|\(Windows\)|\bVisual Studio 20\d\d\b|\bVS ?20\d\d\b|\b[Aa]naconda [Pp]rompt\b"
    ),
    "macos": any_case(
        r"\bon darwin\b|/Library/Frameworks/Python\.framework/"
        r"|/Users/\w{1,60}/(?!.{0,300}\\)|\bmac ?os(?: x)?\b|\bos ?x\b|darwin\d|\bApple M[1-5]\b"
        r"|\bMacBook(?:\b|Pro|Air)|\biMac\b|\bMac (?:mini|Studio|Pro|M[1-5])\b|\bM[1-5] Macs?\b"
        r"|\b(?:my|on|on a) Mac\b|\.dylib\b|macosx_\d",
    ),
    "linux": any_case(
        r"\bon linux2?\b|/home/\w|/usr/(?:local/)?lib|\blib[\w+]+\.so\b|\b(?:ubuntu|debian|centos|fedora|red ?hat"
        r"|rhel|arch ?linux|manjaro|gentoo|linux mint|opensuse|rocky|almalinux)\b|\bapt(?:-get)? install|\blinux\b"
        r"|(?<![\w-])(?:ubuntu|debian|centos|rhel)\d|linux_(?:aarch64|armv7l)\b|(?<![\w.])/(?:root|lib64|proc)/|\bdmesg\b"
        r"|\bldconfig\b|/usr/bin/nvidia-|^\s*Downloading \S*manylinux",
    ),
}
# the system that a form states; where it states several, none of them is meant
_STATED = {
    "windows": any_case(r"(?<!dar)win"),
    "macos": any_case(r"mac|os ?x|darwin"),
    "linux": any_case(r"linux|ubuntu|debian|centos|fedora|red ?hat"),
}
# it is this one, with whatever it is compared
_LINUX_WITH_A_GPU = any_case(
    r"\b(?:linux|ubuntu) (?:computer|machine|pc|server|box|workstation|desktop) with (?:\w+ ){0,2}"
    r"(?:gpu|nvidia|[gr]tx)\b"
)
_EXAMPLE = re.compile(r"\(e\.g\.[^()]{0,80}\)")
_ANOTHERS = any_case(  # somebody else's, or where it works
    r"\banother (?:user|person|poster|commenter)\b"
    r"|\bon (?:my |an? |the )?(?:macbook|mac|windows|ubuntu|linux)\b[^.?!]{0,30}\bworks? (?:fine|well|perfectly)\b"
)
_DPKG = re.compile(r"(?:ii|rc|hi) +\S+ +\d")  # packages that are installed, and maybe not used
# of TensorFlow's log, whatever else is stated, or recommended in the same line
_LOADS_A_DLL = any_case(r"dynamic library '\w+\.dll'|GPU support is not available on native Windows for TensorFlow")
# of a Linux on it, in a container or WSL
_SHARED_OBJECT = re.compile(rf"\blib\S{{1,80}}\.so\S{{0,40}}: cannot open shared object file|{_POSIX_PROMPT.pattern}")
# where nothing speaks of another system
_WINDOWS_WORD = re.compile(
    r"\bWindows\b(?! [Ss]ubsystem)|\b(?:[Oo]n|[Ii]n|[Uu]nder|is|native) windows\b(?!\W{1,3}(?:or|and)\b)"
    r"|\b(?:in|on|via|using) (?:the )?(?:cmd|CMD|[Cc]ommand [Pp]rompt|[Pp]ower[Ss]hell)\b(?![\w.-])|\bpython\.exe\b"
)
_NAMES = (
    "CUDA_VISIBLE_DEVICES|NVIDIA_VISIBLE_DEVICES|NVIDIA_DRIVER_CAPABILITIES|LD_LIBRARY_PATH|CUDA_HOME|CUDA_PATH"
    "|XLA_FLAGS|TF_XLA_FLAGS|TF_FORCE_GPU_ALLOW_GROWTH|TF_GPU_ALLOCATOR|TF_CPP_MIN_LOG_LEVEL|TF_USE_LEGACY_KERAS"
    "|KERAS_BACKEND|CUDA_LAUNCH_BLOCKING|CUDA_CACHE_DISABLE|CUDA_DEVICE_ORDER|PYTHONPATH|LD_PRELOAD|NCCL_P2P_DISABLE"
    "|NCCL_SHM_DISABLE|NVIDIA_TF32_OVERRIDE|TF_GPU_THREAD_MODE|TF_ENABLE_ONEDNN_OPTS|CUDA_CACHE_PATH"
    "|TF_FORCE_UNIFIED_MEMORY|PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION"
)
_VALUE = r"(?P<value>\"[^\"]*\"|'[^']*'|[^\s;&`)]*)"
_SETTING = re.compile(
    r"(?:^|[\s;&(`-]|export |set |-e |--env[= ]|Environment=|\$env:|%env )\"?"
    rf"(?P<name>{_NAMES}) ?(?:=(?!=)|: (?=['\"\w/-]+\s*$)) ?{_VALUE}"
)
_SETTING_BY_WORD = re.compile(rf"(?:^\s*ENV|\bsetx) (?P<name>{_NAMES}) +{_VALUE}")
# a launch configuration, a kernel's, a dict of Python
_IN_JSON = re.compile(rf"[\"'](?P<name>{_NAMES})[\"'] ?: ?(?P<value>\"[^\"]*\"|'[^']*'|[^\s,}}]+)")
_OF_POD = re.compile(rf"\bname: *[\"']?(?P<name>{_NAMES})\b")  # its value stands on the next line
_VALUE_OF_POD = re.compile(r"\s*value: *(?P<value>\S*)\s*")
_ADVICE = re.compile(
    r"\b[Yy]ou (?:can|could|should|may|might|need)\b|\b(?:[Tt]ry|[Pp]lease|[Cc]ould you) (?:to )?(?:set|export|run|use)"
    r"|\bconsider (?:pass|sett)ing "
    rf"|\b[Ww]ith (?:the )?(?:env\w* )?(?:var\w* )?`?(?:{_NAMES})=|\bwill work\b|workaround|^ ?\d\. Set "
    r"|\bis required\b|; LD_LIBRARY_PATH: "
    rf"|environment variable `?[A-Z_]{{1,60}}=.{{0,300}}(?:to|work)"
)
_NAMED = re.compile(_NAMES)
_IN_PYTHON = re.compile(
    r"environ(?:\.setdefault\(|\[) *['\"](?P<name>[A-Z][A-Z0-9_]+)['\"](?:\]? *=|,) *"
    r"(?P<value>['\"][^'\"]*['\"](?!\.)|\w+)"
)
_CONTINUED = 20  # lines of one command
_HIDES_ALL = re.compile(r"set_visible_devices\( *(?:devices *= *)?\[ *\] *, *(?:device_type *= *)?['\"]GPU")


@dataclass(frozen=True)
class Surroundings:
    """What the text tells; a line number is None where nothing tells it."""

    os: str | None = None  # "linux", "windows", "wsl2", "macos"
    os_line: int | None = None
    container: str | None = None  # "docker", "podman", "kubernetes", "apptainer"
    container_line: int | None = None
    image: str | None = None
    image_line: int | None = None
    # what starts it, commands and manifests: line, and whether they ask for GPUs
    starts: tuple[tuple[int, bool], ...] = ()
    building: int | None = None  # the line that runs a program while an image is built, where it sees no GPU
    variables: dict[str, tuple[str, int]] = field(default_factory=dict)  # the last value of each, and its line
    hides_all: int | None = None  # the program hides every GPU itself


def read(lines: Sequence[Line], stated_os: str | None = None) -> Surroundings:
    """Look for prompts, commands, paths and settings."""
    os, os_line = _system([one for one in lines if not _ANOTHERS.search(one.text)], stated_os)
    kind, line = _container(lines)
    if kind is None and os in (None, "linux") and (blocked := _first(_BLOCKED, lines)) is not None:
        os, os_line = "wsl2", blocked
    named = ((_FROM.match(one.text) or _IMAGE.search(one.text), one.number) for one in lines)
    images = [(found["image"], number) for found, number in named if found]
    image, image_line = images[-1] if images else (None, None)
    return Surroundings(
        os=os,
        os_line=os_line,
        container=kind,
        container_line=line,
        image=image,
        image_line=image_line,
        starts=tuple(_starts(lines)),
        building=_first(_BUILT, lines) if _first(_FROM, lines) or _first(_BUILD, lines) else None,
        variables=_variables(lines),
        hides_all=_first(_HIDES_ALL, lines),
    )


def _first(pattern: re.Pattern[str], lines: Iterable[Line]) -> int | None:
    return next((line.number for line in lines if pattern.search(line.text)), None)


def _system(lines: Sequence[Line], stated: str | None) -> tuple[str | None, int | None]:
    loads = _first(_LOADS_A_DLL, lines)
    if (wsl := _wsl(lines, but=loads)) is not None:
        return "wsl2", wsl
    if loads is not None:
        return "windows", loads
    if stated:
        named = [name for name, pattern in _STATED.items() if pattern.search(stated)]
        inside = _first(_SHARED_OBJECT, lines) if named == ["windows"] else None
        return None if named[1:] else (*named, "linux")[0] if inside is None else "linux", inside
    # a form offers all of them, or gives an example
    lines = [
        Line(one.number, _EXAMPLE.sub("", one.text))
        for one in lines
        if not all(pattern.search(one.text) for pattern in _STATED.values())
    ]
    shown = ("linux", _POSIX_PROMPT)  # also where nothing speaks of another system
    for name, pattern in (("linux", _LINUX_WITH_A_GPU), *_SYSTEMS.items(), shown, ("windows", _WINDOWS_WORD)):
        if (line := _first(pattern, lines)) is not None:
            return name, line
    return None, None


def _wsl(lines: Sequence[Line], but: int | None) -> int | None:
    """The line that shows WSL, or else one in which somebody who is not on Windows itself names it."""
    lines = [one for one in lines if one.number != but]
    if (shown := _first(_WSL, lines)) is not None or _first(_NATIVE, lines) is not None:
        return shown
    named = ((one, match) for one in lines for match in _WSL_WORD.finditer(one.text))
    return next((one.number for one, match in named if not _NOT_USED.search(one.text[: match.start()])), None)


def _container(lines: Sequence[Line]) -> tuple[str | None, int | None]:
    lines = [one for one in lines if not _DPKG.match(one.text)]
    for kind, pattern in (("kubernetes", _KUBERNETES), ("apptainer", _APPTAINER)):
        if (line := _first(pattern, lines)) is not None:
            return kind, line
    for pattern in (_RUN, _BUILD, _COMPOSE, _FROM, _PROMPT, _IMAGE, _DOCKER_WORD):
        if (line := _first(pattern, lines)) is not None:
            podman = "podman" in next(one.text for one in lines if one.number == line)
            return "podman" if podman else "docker", line
    return None, None


def _starts(lines: Sequence[Line]) -> Iterator[tuple[int, bool]]:
    """Each command that starts a container, with its continuation lines; a manifest counts as a whole."""
    for place, line in enumerate(lines):
        apptainer = _APPTAINER_RUN.search(line.text)
        enters = _ENTERS.search(line.text)  # a container that runs already
        if (_RUN.search(line.text) or apptainer) and not enters:
            whole = [line.text]
            while whole[-1].rstrip().endswith("\\") and len(whole) < _CONTINUED and place + len(whole) < len(lines):
                whole.append(lines[place + len(whole)].text)
            yield line.number, any((_NV if apptainer else _ASKED).search(text) for text in whole)
    if (line_number := _first(_COMPOSE, lines) or _first(_KUBERNETES, lines)) is not None:
        rows = [line for line in lines if not _RUN.search(line.text)]
        yield line_number, _first(_ASKED, rows) is not None


def _variables(lines: Sequence[Line]) -> dict[str, tuple[str, int]]:
    found: dict[str, tuple[str, int]] = {}
    for place, line in enumerate(lines):
        if not _NAMED.search(line.text) or _ADVICE.search(line.text):
            continue
        following = lines[place + 1].text if place + 1 < len(lines) else ""
        if (pod := _OF_POD.search(line.text)) and (value := _VALUE_OF_POD.fullmatch(following)):
            found[pod["name"]] = (value["value"].strip("\"'"), line.number + 1)
        for pattern in (_SETTING, _SETTING_BY_WORD, _IN_PYTHON, _IN_JSON):
            for match in pattern.finditer(line.text):
                found[match["name"]] = (match["value"].strip("\"'"), line.number)
    return found


def places(lines: Sequence[Line]) -> Iterator[tuple[str, int]]:
    """Each of PLACES that a text is about, and the line that tells it."""
    found = ((name, _first(pattern, lines)) for name, pattern in PLACES.items())
    return ((name, line) for name, line in found if line is not None)


def marked_for_a_cell(command: str) -> str:
    """Return a command of the shell as a cell of a notebook has it; tfgpu's own runs on the machine in either form."""
    return command if command[:1] in "!%" or command.startswith("tfgpu ") else f"!{command}"


def holds_tensorflow(image: str) -> bool:
    """Whether an image brings a TensorFlow of its own: TensorFlow's and NVIDIA's, a server, Google's."""
    return _HOLDS_TENSORFLOW.search(image) is not None


def package_in(image: str) -> str | None:
    """The package that an image of TensorFlow holds; None for another image, or one that holds the sources."""
    found = _TAG.search(image)
    return None if found is None else "tensorflow" if "gpu" in found["tag"] else "tensorflow-cpu"
