"""What is mostly the cause where a text shows none: the commonest causes of reports that look like it.

Counted in tests/cases, over the reports of each situation and system, on 2026-11-23. The first is the commonest; the
engine leaves out what the facts contradict, and says that the rest is possible.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tfgpu_doctor.findings.derived import Card
from tfgpu_doctor.findings.message_log import MessageLog
from tfgpu_doctor.records.facts import Message, TfDevice, lists_gpu
from tfgpu_doctor.records.versions import at_least

# findings that say what is seen, and not why
SYMPTOMS = (
    "gpu.not-visible",
    "gpu.fewer-than-required",
    "tf.import-failed",
    "tf.run-failed",
    "tf.known-bug",
    "benign.log",
)
_BELOW = ("driver.", "container.", "wsl.", "gpu.none")  # causes below TensorFlow
_ONE_PACKAGE = "2.1"  # from here on `tensorflow` has CUDA; before, its GPU build was tensorflow-gpu
_OLDEST_OF_WHEELS, _NEWEST = (3, 5), (12, 0)  # compute capability: compat_matrix.yaml, 1.5 to 2.x; Blackwell
MOST = 3  # causes; a longer list is no help
BECAUSE = "the text gives no reason; in reports like it, this is one of the most common causes"

# situation → system ("" for any other) → causes
COMMON: dict[str, dict[str, tuple[str, ...]]] = {
    "no GPU": {
        "windows": ("tf.windows-native", "cuda.version-mismatch", "cuda.missing", "tf.cpu-build"),
        "wsl2": ("cuda.missing", "wsl.setup", "cuda.lib-path"),
        "macos": ("tf.cpu-build", "gpu.none"),
        "container": ("container.no-gpu", "cuda.missing", "cuda.version-mismatch"),
        "": ("cuda.missing", "cuda.version-mismatch", "cuda.lib-path", "tf.cpu-build"),
    },
    "import": {
        "windows": ("tf.import-dll", "tf.python-unsupported", "tf.abi-numpy"),
        "macos": ("tf.import-avx", "tf.abi-numpy"),
        "": ("tf.abi-numpy", "tf.package-conflict", "tf.wrong-env"),
    },
    "slow": {"": ("perf.small-work", "perf.input-bound", "gpu.arch-too-new")},
    "fails": {
        "container": ("container.no-gpu", "memory.oom", "cuda.version-mismatch"),
        "": ("memory.oom", "gpu.arch-too-new", "cudnn.version-mismatch", "cuda.version-mismatch"),
    },
}


def situation(messages: MessageLog, devices: tuple[TfDevice, ...] | None) -> tuple[str, Message] | None:
    """What goes wrong, and the message that tells; None where nothing does, as far as the text tells."""
    if messages.has("own-finding") or (
        messages.has("gpu-created") and not messages.has("exception", "traceback", "aborted")
    ):
        return None
    slow = messages.first("slow", "time-on-both", "low-utilization")
    if messages.stops_import:
        return "import", messages.messages[-1]
    if slow and not messages.complains:
        return "slow", slow
    if devices is not None and not lists_gpu(devices):
        return "no GPU", messages.first("no-gpu-listed") or messages.messages[-1]
    if slow or not messages.complains:
        return ("slow", slow) if slow else None
    return "fails", messages.messages[-1]


def common_causes(
    seen: str,
    *,
    os: str | None,
    container: str | None,
    cards: Sequence[Card],
    releases: Sequence[str],
    driver_works: bool,
) -> tuple[str, ...]:
    """The causes of that situation, the commonest first.

    Args:
        releases: TensorFlow's, those that the text leaves open; empty where it tells nothing.
        driver_works: nvidia-smi shows a GPU, so that nothing below TensorFlow is the cause.
    """
    table = COMMON[seen]
    inside = "container" if container and container != "none" else ""
    causes = table[os] if os in table else table.get(inside, table[""])
    if seen == "no GPU" and releases and all(at_least(one, _ONE_PACKAGE) is False for one in releases):
        causes = ("tf.cpu-build", "gpu.hidden", *causes)
    if not releases and cards:
        causes = (*_by_card(cards), *causes)
    return tuple(one for one in dict.fromkeys(causes) if not (driver_works and one.startswith(_BELOW)))


def _by_card(cards: Sequence[Card]) -> Iterator[str]:
    """A card that hardly any release has kernels for is the likeliest cause, whatever the release."""
    if all(card.version < _OLDEST_OF_WHEELS for card in cards):
        yield "gpu.arch-too-old"
    elif all(card.version >= _NEWEST for card in cards):
        yield "gpu.arch-too-new"
