"""Fixes that the findings about CUDA and cuDNN share."""

from __future__ import annotations

import ntpath
import posixpath
import re
from collections.abc import Collection, Iterable

from msgspec import structs
from packaging.version import Version

from tfgpu_doctor.facts.facts import Candidate, Known, Unknown, value_or
from tfgpu_doctor.facts.report import Alternative, Fix
from tfgpu_doctor.facts.versions import at_least, major, minor
from tfgpu_doctor.findings.declaration import Context, MessageLog, Problem
from tfgpu_doctor.findings.inputs import Sonames, fetch
from tfgpu_doctor.findings.libraries import (
    ReportedCuda,
    good_candidate,
    hides_wheels,
    in_state,
    names,
    off_path_evidence,
)
from tfgpu_doctor.matrix.compatibility import forgets_folders, jetson_commands, newest_for_most, taking_later_cudnn
from tfgpu_doctor.matrix.loader import KnownIssue, Release

_EARLY = re.compile(r"\d(?:rc|a|b|\.dev)\d")
CONDA_TENSORFLOW = ("conda install -c conda-forge tensorflow",)
PIP_FOLDERS = Fix(  # nvidia is a namespace package: a folder of folders, each with a lib of its own
    text="Add the folders of pip's nvidia packages to the loader path before Python starts",
    commands=(
        "export LD_LIBRARY_PATH=$(python3 -c 'import glob, nvidia; "
        'print(":".join(glob.glob(list(nvidia.__path__)[0] + "/*/lib")))\')${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}',
    ),
)


# what TensorFlow's images from 2.18.0-gpu on lack: tensorflow issue 62412, comment of 2025-02-11
CUDNN_9 = Fix(
    "Install cuDNN 9 in the image, or with RUN in its Dockerfile",
    ("apt-get update && apt-get install -y cudnn9-cuda-12",),
)


def growth(context: Context) -> Fix:
    """How TensorFlow takes memory as it needs it: by a variable, which the wheels from 1.12.0 on know (not 1.11.0)."""
    fact = context.facts.tensorflow.version
    versions = (fact.value,) if isinstance(fact, Known) else fact.one_of
    options = "config = tf.ConfigProto(); config.gpu_options.allow_growth = True; tf.Session(config=config)"
    if versions and all(at_least(one, "1.12") is False for one in versions):
        return Fix(f"Let TensorFlow allocate only what it needs, in the program: {options}")
    is_new = context.probed if not versions else all(major(one) == "2" for one in versions)
    in_r = "r" in context.log.values("place", "name")
    old = "" if is_new or in_r else f" (in a program of TensorFlow 1: {options})"
    if context.log.has("serving"):
        old = " (Docker: with -e), or give the server a share: --per_process_gpu_memory_fraction=0.5 among its options"
    if context.log.has("ray-worker"):
        old = ", in each worker of Ray: set it before ray start or ray.init()"
    return Fix(f"Let TensorFlow allocate only what it needs{old}", ("export TF_FORCE_GPU_ALLOW_GROWTH=true",))


_JETPACK_3 = "https://developer.download.nvidia.com/compute/redist/jp33"  # docs.nvidia.com, TensorFlow for Jetson


def jetpack(context: Context) -> Fix:
    """NVIDIA's TensorFlow for the JetPack that a text names, or how to see which one it is."""
    named = next(iter(context.log.values("jetson", "jetpack")), "").replace(".", "")
    with_wheels = [row for row in context.matrix.data.jetpacks if row.wheels]
    rows = [row for row in with_wheels if named and row.version.replace(".", "").startswith(named)]
    if rows:  # the newest first
        row, wheel = rows[-1], rows[-1].wheels[0]
        which = f"TensorFlow {Version(wheel.tensorflow).public} for JetPack {row.version}"
        return Fix(f"Install NVIDIA's {which}, with Python {row.python}", jetson_commands(row, wheel))
    cuda = value_or(fetch("reported_cuda", context), None)
    if cuda and "9.0" in {minor(version) for version, _ in cuda.installed}:  # no other has it
        text = "CUDA 9.0 is that of JetPack 3.2 and 3.3: install NVIDIA's TensorFlow for these, or a newer JetPack"
        return Fix(text, (f"python3 -m pip install --extra-index-url {_JETPACK_3} tensorflow-gpu==1.9.0+nv18.8",))
    return Fix(
        "See which JetPack it is, and install NVIDIA's TensorFlow for that, or use its container l4t-tensorflow",
        ("cat /etc/nv_tegra_release", "apt-cache show nvidia-jetpack | grep Version"),
    )


IN_COMPAT = Fix("In the program, import it so: import tensorflow.compat.v1 as tf; tf.disable_v2_behavior()")
_CUDA = "https://developer.nvidia.com/cuda-toolkit-archive"


def install_libraries(context: Context) -> tuple[Fix, ...]:
    """Install the CUDA libraries of this TensorFlow; another release where this one cannot use them here."""
    log = value_or(fetch("messages", context), MessageLog(()))
    if "the program" in log.values("another-program", "program"):
        cuda = value_or(fetch("reported_cuda", context), None)
        which = f", {cuda.wanted}" if cuda and cuda.wanted and "." in cuda.wanted else ""
        any_11 = " (every CUDA 11 has that library)" if which == ", 11.0" else ""
        return (Fix(f"Install the CUDA that it is linked to{which}{any_11}, beside the one that is there: {_CUDA}"),)
    other = jetpack(context) if context.remedies.on_jetson else _of_another_build(context)
    return (other,) if other else _for_an_old_cuda(context) or _for_tensorflow(context)


def _for_tensorflow(context: Context) -> tuple[Fix, ...]:
    source = "conda" if context.remedies.os == "windows" else "pip"
    remedies, why = context.remedies, f"it installs its CUDA libraries from {source}"
    release: Release | None = value_or(fetch("gpu_release", context), None)
    if release is None or remedies.image:
        best = tuple(map(_from_where, remedies.reinstall_best(why)))
        beside = () if context.probed else _for_what_is_installed(context)
        return (*beside, *(Alternative(fix.text, fix.commands) for fix in best)) if beside else best
    kept = remedies.kept_release()
    text = f"Install the CUDA libraries of TensorFlow {release.version} from pip"
    own = Fix(text, remedies.install_tensorflow(release))
    if kept and kept.version == release.version:
        return (own,) if release.extra else (own, *remedies.reinstall_best(why))
    if any(map(forgets_folders, release.known_issues)):
        why = f"it finds the CUDA libraries that pip installs with it, which {release.version} does not"
    best = tuple(map(_from_where, remedies.reinstall(why)))
    if not best and remedies.knows_gpu:
        best = remedies.beside_the_wheels("it brings its CUDA libraries")
    return (best or (own,)) if release.extra else _keep(release, best, context)


def _from_where(fix: Fix) -> Fix:
    """The same, with where the CUDA libraries come from: pip has none of CUDA 10 and before."""
    if not any("cudatoolkit" in command for command in fix.commands):
        return fix
    return structs.replace(fix, text=fix.text.replace("libraries from pip", "libraries from conda"))


def _of_another_build(context: Context) -> Fix | None:
    """What asks for a CUDA that is not the release's, such as a custom op, is not repaired by that of the release.

    Where it is cuDNN, another TensorFlow runs than the one that is named.
    """
    release: Release | None = value_or(fetch("gpu_release", context), None)
    cuda = None if context.probed else value_or(fetch("reported_cuda", context), None)
    cudnn = None if context.probed else value_or(fetch("reported_cudnn", context), None)
    if release is None:
        return None
    show = (context.remedies.filtered("python -m pip list", "tensorflow"),)
    wanted = cudnn.wanted if cudnn and cudnn.not_opened else None
    if wanted and release.cudnn and major(wanted) != major(release.cudnn):
        named = f"TensorFlow {release.version} opens cuDNN {major(release.cudnn)}, and the text has cuDNN {wanted}"
        return Fix(f"To decide, see which TensorFlow runs: {named}", show)
    wanted, own = minor(cuda.wanted) if cuda else None, minor(release.cuda)
    if not wanted or at_least(own, "11") is not False or wanted == own:
        return None
    what = f"CUDA {wanted} is not that of TensorFlow {release.version}, which is {own}: see whether that is what runs"
    text = f"{what}. If it is, compile or install the op or package anew that wants it, or add that CUDA: {_CUDA}"
    return Fix(text, show)


def _for_what_is_installed(context: Context) -> tuple[Fix, ...]:
    """The release that is built for the CUDA which a text says is installed, where it does not tell the release."""
    cuda = value_or(fetch("reported_cuda", context), None)
    cudnn = value_or(fetch("reported_cudnn", context), None)
    installed = {minor(version) for version, _ in cuda.installed} if cuda else set()
    if len(installed) != 1:
        return ()
    if cuda and any(library.name.endswith("cusolver.so.10") for library, _ in cuda.not_opened):
        installed = {"11.2" if one == "11.0" else one for one in installed}  # any 11 has libcudart.so.11.0
    of_cudnn = {version for version, _ in cudnn.installed} if cudnn else set()
    lacks_cudnn = bool(cudnn and cudnn.not_opened and not of_cudnn)
    of_one = of_cudnn.pop() if len(of_cudnn) == 1 else None
    return context.remedies.built_for(installed.pop(), of_one, lacks_cudnn=lacks_cudnn)


def _for_an_old_cuda(context: Context) -> tuple[Fix, ...]:
    """Where a library of CUDA 10 or older is named: no release of today runs a program that was written for these.

    What an import links, instead of opening it, is of TensorFlow 1: 1.15 and 2.0 open all of CUDA.
    """
    cuda = value_or(fetch("reported_cuda", context), None)
    unknown = value_or(fetch("gpu_release", context), None) is None and not (context.probed or context.remedies.image)
    row = _newest_with(context, cuda) if unknown and cuda and cuda.not_opened else None
    text = "Install TensorFlow {0} in an environment of its own"
    if row:
        beside = context.remedies.with_cuda_beside(row, text.format(row.version))
        or_by_hand = f"Install CUDA {minor(row.cuda)} and its cuDNN, which TensorFlow {row.version}, for example, loads"
        return (*beside,) or (Fix(f"{or_by_hand}: {_CUDA}"),)
    row = _newest_with_cudnn(context) if unknown else None
    return (*context.remedies.with_cuda_beside(row, text.format(row.version)),) if row else ()


def _newest_with_cudnn(context: Context) -> Release | None:
    """The newest release that opens the cuDNN which is not there: of cuDNN 7, only among those that the text leaves."""
    cudnn, version = value_or(fetch("reported_cudnn", context), None), context.facts.tensorflow.version
    wanted = cudnn.wanted if cudnn and cudnn.not_opened else None
    left = version.one_of if isinstance(version, Unknown) else ()
    platform = value_or(context.facts.python.wheel_platform, "linux_x86_64")
    rows = (row for row in context.matrix.releases(platform=platform) if major(row.cudnn) == wanted)
    own = (row for row in rows if wanted == "6" or (wanted == "7" and row.version in left))  # conda has no older one
    return max(own, key=newest_for_most, default=None)


def _newest_with(context: Context, cuda: ReportedCuda) -> Release | None:
    linked = all(message.kind == "loader-error" for _, message in cuda.not_opened)
    version, platform = context.facts.tensorflow.version, value_or(context.facts.python.wheel_platform, "linux_x86_64")
    wanted = minor(cuda.wanted) if at_least(cuda.wanted, "11") is False else None
    rows = [row for row in context.matrix.releases(platform=platform) if row.gpu and minor(row.cuda) == wanted]
    left = {*map(minor, version.one_of)} if isinstance(version, Unknown) else set[str]()
    # CUDA 10.0 has four releases, three of them of TensorFlow 1
    own = [row for row in rows if minor(row.version) in left] or [row for row in rows if major(row.version) == "1"]
    return max(own or ([] if linked else rows), key=newest_for_most, default=None) if wanted else None


def _keep(release: Release, best: tuple[Fix, ...], context: Context) -> tuple[Fix, ...]:
    """Keep a release whose CUDA pip does not install, beside the best one."""
    later = taking_later_cudnn(context.matrix, release)
    stated = value_or(context.facts.tensorflow.version, release.version)
    early = f", the final release of {stated}" if _EARLY.search(stated) else ""
    text = f"{'Take' if early else 'Keep'} {release.version}{early}, in an environment of its own"
    if later is not release:
        text = f"{release.version} takes cuDNN 7.0 alone: install {later.version}, in an environment of its own"
    advised = {fix.commands for fix in best}
    ways = (*context.remedies.in_image(release), *context.remedies.with_cuda_beside(later, text))
    beside = [fix for fix in ways if fix.commands not in advised]
    if not context.probed and beside:  # whoever names an old release has a program for it
        return (*beside, *(Alternative(fix.text, fix.commands) for fix in best))
    return (*best, *(Alternative(fix.text, fix.commands) for fix in beside))


def _searched_folder(context: Context) -> str | None:
    """A folder that TensorFlow's RUNPATH names and that exists: its own, or that of a library which is found there."""
    searched = [posixpath.normpath(folder) for folder in value_or(context.facts.loader.runpath, ())]
    own = [folder for folder in value_or(context.facts.python.tensorflow_paths, ())[:1] if folder in searched]
    winners = (
        posixpath.dirname(file.path)
        for library in value_or(context.facts.loader.sonames, ())
        for file in library.candidates
        if file.path == library.winner and file.via == "RUNPATH"
    )
    return next(iter(own), None) or next(winners, None)


def tell_apart(context: Context) -> Fix:
    """How to see whether a library is missing, of another version, or not on the loader path."""
    sonames = context.facts.loader.sonames
    look = (sonames.ask,) if isinstance(sonames, Unknown) and sonames.ask else ()
    text = "To decide whether it is missing, of another version or not on the loader path, run one of these there"
    return Fix(text, ("tfgpu doctor", *look))


def not_on_path(
    context: Context, sonames: Sonames, release: Release, because: str, *, beside: Sonames = (), of_cudnn: bool = False
) -> Problem | None:
    """The right files are not on the loader path, or come after one that cannot be loaded.

    The fix serves the libraries `beside` these, too. Of cuDNN: no release is known to forget its folder, and what comes
    first and fails is a cause of its own.
    """
    # of those that cannot be loaded: no good file exists, and a damaged one would hide it if there were one
    unloadable = in_state(sonames, "unloadable")
    hidden = (one for one in unloadable if any(file.is_in_the_way and hides_wheels(file) for file in one.candidates))
    libraries = (*in_state(sonames, "off path"), *hidden)
    if not libraries:
        return None
    failing = [one for one in libraries if any(file.reachable and file.problem for file in one.candidates)]
    title = f"{names(libraries)} installed, but not found by the loader" if len(libraries) <= 2 else None
    cause = f"the loader does not search the folders of {names(libraries)}"
    if failing:
        title = f"The {failing[0].soname} that the loader finds first cannot be loaded"
        cause = "the loader stops at the first file of that name"
    return Problem(
        title=title,
        cause=f"{cause}. {because}",
        evidence=off_path_evidence(libraries, release),
        fixes=_fix_path(context, (*libraries, *beside), None if of_cudnn else release),
        never_consequence=of_cudnn and bool(failing),
    )


def _fix_path(context: Context, libraries: Sonames, release: Release | None) -> tuple[Fix, ...]:
    """Get the files out of the way that come first and fail, or let the loader find the good ones."""
    blocking = [one.path for library in libraries for one in library.candidates if one.is_in_the_way]
    if blocking:  # damaged files that the loader opens in place of good ones
        moves = tuple(context.remedies.rename(path, path + ".broken") for path in blocking)
        return (Fix("Rename the damaged file, so that the loader does not find it", moves),)
    good = [*filter(None, map(good_candidate, libraries))]
    paths = ntpath if context.remedies.os == "windows" else posixpath
    folders = dict.fromkeys(paths.dirname(one.path) for one in good)
    lasting = _linked(context, good, folders, release)
    if all(one.reachable for one in good):
        first = (one.candidates[0] for one in libraries if one.candidates)
        hiding = on_library_path(file for file in first if file.reachable and file.problem)
        lasting = (*off_library_path(context, hiding), *lasting)
    return (*_beside_another_release(context, release, lasting), _exported(context, folders))


def _beside_another_release(context: Context, release: Release | None, lasting: tuple[Fix, ...]) -> tuple[Fix, ...]:
    """A patch release without the bug of this one is the better fix, a new minor release comes last."""
    if release is None or not any(map(forgets_folders, release.known_issues)):
        return lasting
    other, advised = context.remedies.reinstall("it finds the libraries of its extra"), context.remedies.release
    patch = advised is not None and minor(advised.version) == minor(release.version)
    return (*other, *lasting) if patch else (*lasting, *other)


def _linked(
    context: Context, good: Iterable[Candidate], folders: Iterable[str], release: Release | None
) -> tuple[Fix, ...]:
    """Links last, in every shell; for libraries of pip's packages, in a folder of the same environment."""
    target = _searched_folder(context)
    if target is None or any(one.reachable or one.via != "pip wheel" for one in good):
        return ()
    text = "Link them into a folder that this TensorFlow searches; this works in every shell"
    is_own = target in value_or(context.facts.python.tensorflow_paths, ())[:1]
    # XLA of releases that forget their folders finds nothing of pip's, either
    commands = context.remedies.made_visible(release) if release and is_own else ()
    return (Fix(text, commands or (context.remedies.link(folders, target),)),)


def on_windows_path(whose: str, folders: str) -> Fix:
    """Add folders to PATH."""
    text = f"Add {whose} to PATH before Python starts: for this console with the command, for all others in Windows' "
    return Fix(text + "settings, Environment variables", (f'set "PATH={folders};%PATH%"',))


def _exported(context: Context, folders: Iterable[str]) -> Fix:
    if context.remedies.os == "windows":
        return on_windows_path("their folders", ";".join(folders))
    path = context.remedies.quote(":".join(folders))
    text = "Add their folders to the loader path before Python starts; this works in this shell only"
    return Fix(text, (first_on_loader_path(path),))


def first_on_loader_path(folders: str) -> str:
    """Write the command of a Linux shell that puts folders before those of LD_LIBRARY_PATH."""
    return f"export LD_LIBRARY_PATH={folders}${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}"


def on_library_path(files: Iterable[Candidate]) -> set[str]:
    """The folders of LD_LIBRARY_PATH that these files lie in."""
    return {posixpath.dirname(one.path) for one in files if one.via == "LD_LIBRARY_PATH"}


def off_library_path(context: Context, folders: Collection[str]) -> tuple[Fix, ...]:
    """Remove folders from LD_LIBRARY_PATH."""
    if not folders:
        return ()
    value = value_or(context.facts.variables, {}).get("LD_LIBRARY_PATH", "")
    command = context.remedies.without_folders("LD_LIBRARY_PATH", value, folders)
    text = f"Remove {' and '.join(sorted(folders))} from LD_LIBRARY_PATH, which comes first"
    return (Fix(text=text, commands=(command or context.remedies.unset("LD_LIBRARY_PATH"),)),)


def without_bug(context: Context, release: Release, issue: KnownIssue) -> tuple[Fix, ...]:
    """What the matrix says; where that is another release, the one that the whole report advises."""
    pip = f"{context.remedies.python} -m pip"
    own = Fix(text=issue.fix, commands=tuple(one.replace("python3 -m pip", pip) for one in issue.commands))
    advised = context.remedies.release
    if not any("tensorflow" in one for one in issue.commands) or (advised and advised.version == release.version):
        return (Fix(text=issue.fix) if context.remedies.refuses(own) else own,)
    return context.remedies.reinstall("it does not have this bug") or (Fix(text=issue.fix),)


# tensorflow-metal 1.2.0 is of the time of 2.18; 1.1.0 could not load 2.18.0 (tensorflow issues 81987, 84167). 1.1.0 is
# that of 2.14 (the table in its wheels, for Python 3.9 to 3.11), and runs with 2.15.0 (tensorflow issue 63854)
_WITH_METAL = "~/tf/bin/python -m pip install tensorflow==2.18.1 tensorflow-metal==1.2.0"
_METAL, _ITS_PYTHONS = {"2.14": "1.1.0", "2.15": "1.1.0"}, ("3.9", "3.10", "3.11")


def with_metal(context: Context) -> tuple[Fix, ...]:
    """The GPU of Apple silicon; a Mac of unknown processor is taken to be one, but for an older release."""
    is_old = at_least(value_or(context.facts.tensorflow.version, None), "2.5") is False
    if is_old or value_or(context.facts.python.wheel_platform, "") == "macos_x86_64":
        return ()
    version, python = value_or(context.facts.tensorflow.version, ""), minor(value_or(context.facts.python.version, ""))
    if (metal := _METAL.get(minor(version) or "")) and (not python or python in _ITS_PYTHONS):
        text = f"On Apple silicon, keep {version}, and install Apple's plug-in in that environment"
        return (*context.remedies.installing(text, f"tensorflow-metal=={metal}"),)
    make = f"python{python if python in _ITS_PYTHONS else '3.12'} -m venv ~/tf"
    title = "TensorFlow 2.18.1 with tensorflow-metal 1.2.0: the GPU of Apple silicon"
    return (Fix(f"On Apple silicon, in an environment of its own: {title}", (make, _WITH_METAL)),)


def keep_one(context: Context) -> tuple[Fix, ...]:
    """Keep tensorflow-gpu: of 1.x and 2.0 it alone has CUDA, and from 2.1 on the two are the same."""
    python = context.remedies.python
    text = (
        "Keep tensorflow-gpu, and install it anew, as tensorflow has overwritten its files; add with pip's --no-deps "
        "what requires tensorflow"
    )
    version = f"V=$({python} -m pip show tensorflow-gpu | sed -n 's/^Version: //p')"
    again = f'{python} -m pip install --force-reinstall --no-deps "tensorflow-gpu==$V"'
    return (Fix(text, (version, context.remedies.pip_uninstall("tensorflow"), again)),)
