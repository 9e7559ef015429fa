"""The same images through tf.data with different knobs turned: what each costs or brings.

TensorFlow turns some knobs by itself (map_parallelization and inject_prefetch, on by default): here they are off, so
that each knob shows what it does, and *as TensorFlow tunes it* is the sequential code with them on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from . import pictures

PREFETCH = 2  # batches that wait ready, as many as TensorFlow's guide starts from; known, so that they can be used up
OWN = ("map_parallelization", "inject_prefetch", "map_and_batch_fusion", "parallel_batch", "map_fusion")


class Pipeline(NamedTuple):
    """Which knobs are turned."""

    base: str | None = None  # the pipeline that lacks one knob of this one, or several of the last
    tuned: bool = False  # TensorFlow may optimise the graph
    parallel_map: bool = False  # images are augmented by several threads
    parallel_decode: bool = False  # and read and decoded
    cache: bool = False  # decoded images stay in memory after the first epoch
    vectorised: bool = False  # a batch is augmented at once
    prefetch: bool = False  # the next batches are made while the model computes
    to_device: bool = False  # and copied to the device


_DECODING = Pipeline("parallel map", parallel_map=True, parallel_decode=True)
PIPELINES = {
    "sequential": Pipeline(),
    "as TensorFlow tunes it": Pipeline("sequential", tuned=True),
    "parallel map": Pipeline("sequential", parallel_map=True),
    "parallel decode": _DECODING,
    "batch before map": _DECODING._replace(base="parallel decode", vectorised=True),
    "cache": _DECODING._replace(base="parallel decode", cache=True),
    "prefetch": _DECODING._replace(base="parallel decode", prefetch=True),
    "prefetch to device": _DECODING._replace(base="prefetch", prefetch=True, to_device=True),
    "everything": _DECODING._replace(base="sequential", cache=True, vectorised=True, prefetch=True),
}
ALONE = ("sequential", "as TensorFlow tunes it", "parallel map", "parallel decode", "batch before map", "cache")
FEEDING = ("sequential", "as TensorFlow tunes it", "parallel decode", "prefetch", "prefetch to device", "everything")


def build(
    files: Sequence[str], image: tuple[int, int, int], classes: int, size: int, chosen: Pipeline, device: str | None
) -> Any:
    """An endless dataset of (images float32 [size, h, w, c], labels int32 [size], index int64 [size]).

    Args:
        device: where batches are copied to in advance, where the pipeline does that.
    """
    import tensorflow as tf

    data = tf.data
    auto = getattr(data, "AUTOTUNE", None) or data.experimental.AUTOTUNE

    plain = tf.autograph.experimental.do_not_convert  # which would leave files behind in the folder for temporary ones

    def decode(path: Any, label: Any, index: Any) -> Any:
        return pictures.load(path, image), label, index

    def augment(pixels: Any, label: Any, index: Any) -> Any:
        return pictures.augment(pixels, index, image), label, index

    def augment_batch(pixels: Any, label: Any, index: Any) -> Any:
        return pictures.augment_batch(pixels, index, image), label, index

    with tf.device("/CPU:0"):
        labels = [index % classes for index in range(len(files))]
        indices = tf.range(len(files), dtype=tf.int64)
        found = data.Dataset.from_tensor_slices((list(files), tf.constant(labels, tf.int32), indices))
        found = found.map(plain(decode), num_parallel_calls=auto if chosen.parallel_decode else None)
        found = found.cache() if chosen.cache else found
        found = found.repeat()
        calls = auto if chosen.parallel_map else None
        if chosen.vectorised:
            found = found.batch(size, drop_remainder=True).map(plain(augment_batch), num_parallel_calls=calls)
        else:
            found = found.map(plain(augment), num_parallel_calls=calls).batch(size, drop_remainder=True)
        found = found.prefetch(PREFETCH) if chosen.prefetch and not chosen.to_device else found
        found = found.with_options(_options(data, chosen.tuned))
        if chosen.to_device and device is not None:
            found = found.apply(data.experimental.prefetch_to_device(device, PREFETCH))
    return found


def _options(data: Any, tuned: bool) -> Any:
    """Optimisations that change what a knob does, off or as TensorFlow has them."""
    options = data.Options()
    for name in () if tuned else OWN:
        if hasattr(options.experimental_optimization, name):  # another TensorFlow has others
            setattr(options.experimental_optimization, name, False)
    return options
