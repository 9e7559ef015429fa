"""Limits that look like faults of the driver or of XLA: address space, temporary files, and a full disk."""

from __future__ import annotations

from tfgpu_doctor.findings import driver_answers as answers
from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import Problem, evidence, finding
from tfgpu_doctor.findings.message_log import MessageLog, message_evidence
from tfgpu_doctor.records.facts import CallResult, Limit, Message, TemporaryFolder, value_or
from tfgpu_doctor.records.report import Fix, Severity
from tfgpu_doctor.records.units import memory_size

_READ_ONLY = "Read-only file system"

# srun(1) and sbatch(1), --propagate; slurm.conf(5), PropagateResourceLimits: by default, jobs get all limits of the
# shell that submits them, and VSizeFactor sets one of its own
_IN_SLURM = Fix(
    text="In a job of Slurm: submit it with --propagate=NONE, and ask for memory with --mem, which limits what is used "
    "instead of what is reserved"
)
_FIND_LIMIT = Fix(
    text="Find what sets the limit, remove it there, and log in anew",
    commands=(
        "grep -n 'ulimit .*v' ~/.bashrc ~/.profile ~/.bash_profile /etc/profile /etc/profile.d/*.sh",
        "grep -nw as /etc/security/limits.conf /etc/security/limits.d/*.conf",
    ),
)


def _without_limit(context: Context) -> tuple[Fix, ...]:
    """A process may raise its limit up to the hard one; the hard one, only root may raise."""
    limit: Limit | None = value_or(context.facts.host.address_space_limit, None)
    bounded = limit is not None and limit.hard is not None
    command = 'sudo prlimit --pid "$$" --as=unlimited' if bounded else "ulimit -v unlimited"
    who = ", which only root may do" if bounded else ""
    raised = Fix(text=f"Remove the limit of this shell{who}, and start the program again in it", commands=(command,))
    return (raised, _IN_SLURM, _FIND_LIMIT)


ADDRESS_SPACE = finding(
    "env.address-space-limit",
    layer="Machine",
    severity=Severity.ERROR,
    title="The address space of this process is limited, and CUDA does not start",
    cause="when CUDA starts, it reserves addresses for the memory of all GPUs and of the machine, far more than it "
    "uses, and RLIMIT_AS (ulimit -v) counts what is reserved",
    fixes=_without_limit,
    docs="https://man7.org/linux/man-pages/man2/getrlimit.2.html",
)


@ADDRESS_SPACE.sign
def reservation_refused(
    context: Context,
    address_space_limit: Limit,
    cuda_init: CallResult | None = None,
    messages: MessageLog | None = None,
) -> Problem | None:
    """There is a limit, and the driver or the loader gets no addresses."""
    started = not answers.has_code(cuda_init, answers.OUT_OF_MEMORY)
    unloaded = [*filter(_not_mapped, messages.all("loader-error", "exception"))] if messages else []
    if address_space_limit.soft is None or (started and not unloaded):
        return None
    shown = messages.all("address-space-limit")[-1:] if messages else ()
    size = memory_size(address_space_limit.soft)
    read = evidence(f"address space limited to {size}", context.source("host.address_space_limit"), "unlimited")
    found = [*(message_evidence(*shown, need="unlimited") or (read,))]
    if cuda_init is not None and not started:
        found.append(answers.returned("cuInit", cuda_init, "driver.cuda_init", context))
    return Problem(
        title="The address space of this process is too small to load TensorFlow" if started else None,
        cause="RLIMIT_AS (ulimit -v) counts the addresses that libraries take, and those that CUDA reserves when it "
        "starts"
        if started
        else None,
        evidence=(*found, *message_evidence(*unloaded)),
    )


def _not_mapped(message: Message) -> bool:
    """True for the loader's words for a refused mmap; on a file system without execution it adds a reason."""
    return "failed to map segment" in message.text and "not permitted" not in message.text


# ------------------------------------------------------------------------------------------------- temporary files


def _another_folder(context: Context) -> tuple[Fix, ...]:
    folder: TemporaryFolder | None = value_or(context.facts.host.temporary_folder, None)
    commands = () if context.remedies.os == "windows" else ("mkdir -p ~/tmp", "export TMPDIR=~/tmp")
    own = Fix(text="Use a folder of your own for temporary files", commands=commands)
    if folder is None or folder.path != "/tmp" or folder.problem is None:
        return (own,)
    if folder.problem == _READ_ONLY:
        return (own, Fix(text="In a container with a read-only root: mount one (Docker: --tmpfs /tmp)"))
    return (own, Fix(text="Give /tmp its usual permissions", commands=("sudo chmod 1777 /tmp",)))


TMPDIR = finding(
    "env.tmpdir-unwritable",
    layer="Machine",
    severity=Severity.ERROR,
    title="The folder for temporary files cannot be written",
    cause="XLA writes PTX code there, from which ptxas makes the code for the GPU: what XLA compiles (jit_compile, "
    "Keras 3 on a GPU) fails",
    fixes=_another_folder,
    docs="https://docs.python.org/3/library/tempfile.html#tempfile.tempdir",
)


@TMPDIR.sign
def folder_refuses(context: Context, temporary_folder: TemporaryFolder, has_gpu: bool | None = None) -> Problem | None:
    """No file can be made in the folder that TensorFlow and XLA take; without a GPU, few notice."""
    if temporary_folder.problem is None:
        return None
    where = context.source("host.temporary_folder")
    named = "" if temporary_folder.via == "default" else f"{temporary_folder.via}="
    found = evidence(
        f"{named}{temporary_folder.path}: {temporary_folder.problem}", where, "a folder that can be written"
    )
    return Problem(
        title=f"Temporary files cannot be written to {temporary_folder.path}",
        cause=None if has_gpu else "TensorFlow and XLA take this folder for their temporary files",
        evidence=(found,),
        severity=None if has_gpu else Severity.WARNING,
        despite_verified=True,  # the child of the doctor gets a folder of its own, below one that can be written
    )


@TMPDIR.sign
def file_refused(messages: MessageLog) -> Problem | None:
    """XLA or Python cannot make a temporary file."""
    seen = messages.all("temporary-file-refused")
    return Problem(evidence=message_evidence(*seen)) if seen else None


# ------------------------------------------------------------------------------------------------------- full disk


def _more_room(context: Context) -> tuple[Fix, ...]:
    windows = context.remedies.os == "windows"
    shown = ("Get-PSDrive -PSProvider FileSystem",) if windows else ("df -h", "df -i")
    return (
        Fix(text="Show which disk is full" + ("" if windows else ", of bytes or of inodes"), commands=shown),
        Fix(text="Empty pip's cache, which is often gigabytes", commands=("python -m pip cache purge",)),
        Fix(text="Remove what nobody needs: caches of conda, uv and Docker, old environments and checkpoints"),
    )


DISK_FULL = finding(
    "env.disk-full",
    layer="Machine",
    severity=Severity.ERROR,
    title="The disk is full",
    cause="a file cannot be written: no space, no inodes or no quota is left on the file system that holds it; the "
    "memory of the GPU has nothing to do with it",
    fixes=_more_room,
    docs="https://man7.org/linux/man-pages/man2/write.2.html",
)


@DISK_FULL.sign
def write_refused(messages: MessageLog) -> Problem | None:
    """A program could not write a file, and not one of shared memory."""
    seen = messages.all("no-space-left")
    if not seen or messages.has("shared-memory-full", "shm-listed", "bus-error"):
        return None
    return Problem(evidence=message_evidence(*seen))
