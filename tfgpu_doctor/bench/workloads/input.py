"""Encoded images through tf.data, alone and into the training of a network: images a second.

Three things are measured with the same batches: a pipeline alone (nobody consumes), the training alone (its data lie
on the device), and the training fed by a pipeline. One step is BLOCK batches. Before each timed block some batches are
used up that a pipeline had made ready while nobody asked: what is timed is what it can sustain.

Verified (docs/measuring.md): the first epoch, by a checksum of each image; after that the last batch of every sample.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from .models import MODELS
from .training import BaseWorkload, Check, Judgement, TrainingWorkload, judged, losses_finite, numbers, synchronise

UNIT = "images/s"
BLOCK = 4  # batches that are timed together
WRONG = ("missing", "more than once", "other pixels", "other shape")
METHOD = "every image of an epoch once, with the pixels that it has outside of any pipeline; losses finite"


def judge(answer: dict[str, Any], _dtype: str, _parameters: dict[str, Any]) -> Judgement:
    """Say whether the right images arrived, and the losses are numbers."""
    checks = []
    for name in WRONG if answer["images"] is not None else ():
        checks.append(Check(f"no image {name}", answer[name] == 0, f"{answer[name]} of {answer['images']}"))
    if answer["losses"] is not None:
        checks.append(losses_finite(answer["losses"]))
    return judged(METHOD, checks)


def reference(folder: str, image: list[int], count: int, make: bool) -> None:
    """Write images into a folder for a benchmark whose user has none, or look whether the user's can be decoded.

    Raises ValueError: one cannot; the message names it.
    """
    (make_images if make else expected)(folder, (image[0], image[1], image[2]), count)


class Workload(TrainingWorkload):
    """A pipeline, a training, or both; `parameters`: folder, count, model, batch, pipeline or None, trains."""

    def __init__(self, parameters: dict[str, Any], dtype: str, devices: list[str], spread: str) -> None:
        self.trains = parameters["trains"]
        self.batches: Any = None  # of the pipeline, where there is one
        self.last: Any = None  # of them: images, labels, indices
        if self.trains:
            super().__init__(parameters, dtype, devices, spread)
        else:
            BaseWorkload.__init__(self, parameters, dtype, devices, spread)
            self.each = parameters["batch"]
        if parameters["pipeline"] is not None:
            with self.starting("first epoch, checked"):
                self._open(PIPELINES[parameters["pipeline"]], parameters["model"])

    def _open(self, chosen: Pipeline, name: str) -> None:
        """Build the pipeline, and check its first epoch."""
        import numpy as np
        import tensorflow as tf

        folder, count, self.image = self.parameters["folder"], self.parameters["count"], MODELS[name].image
        self.expected = np.array(expected(folder, self.image, count), np.uint32)
        self.given: list[Any] = []  # the indices of the images of each batch, tensors
        self.counts: Any = np.zeros(len(self.expected), np.int64)  # how often each image came
        self.wrong = self.shapes = 0
        files, several = find(folder, count), len(self.devices) > 1
        whole = self.each * len(self.devices)  # a strategy deals out shares of each batch
        data = build(files, self.image, MODELS[name].classes, whole, chosen, None if several else self.devices[0])
        self.shares: Any = lambda value: (value,)
        if several and self.trains:
            data = self.training.strategy.experimental_distribute_dataset(data)
            self.shares = self.training.strategy.experimental_local_results
        with tf.device("/CPU:0"):
            self.batches = iter(data)
        for _ in range(-(-len(files) // whole)):
            self._pull()
            self._look()
        self.first = self._found()

    def _pull(self) -> Any:
        """Return the next batch: images and labels."""
        self.last = next(self.batches)
        self.given.append(self.last[2])
        return self.last[:2]

    def steps(self, count: int) -> None:
        """Do what is measured with so many batches, and wait once."""
        for _ in range(count):
            data = self.data if self.batches is None else self._pull()
            self.outputs = self.training.run(*data) if self.trains else self.last[:1]
        if self.trains:
            self.training.wait()
        else:
            synchronise(self.devices)

    def sample(self, steps: int) -> float:
        """Return the seconds of `steps` blocks of batches, after those that were ready are used up."""
        self.steps(1 if self.batches is None else READY)
        return super().sample(BLOCK * steps)

    def _look(self) -> None:
        """Count the images that came, and compare the pixels of the last batch."""
        import numpy as np

        for given in self.given:
            for share in self.shares(given):
                np.add.at(self.counts, share.numpy(), 1)
        self.given = []
        for images, indices in zip(self.shares(self.last[0]), self.shares(self.last[2])):
            pixels = images.numpy()
            if pixels.shape != (self.each, *self.image) or pixels.dtype != np.float32:
                self.shapes += len(pixels)
            sums = np.array([zlib.crc32(one) for one in np.ascontiguousarray(pixels)], np.uint32)
            self.wrong += int(np.count_nonzero(sums != self.expected[indices.numpy()]))

    def _found(self) -> dict[str, Any]:
        """Return what is wrong with the images until now; one of the epoch that goes on may have come once more."""
        rounds, rest = divmod(int(self.counts.sum()), len(self.counts))
        return {
            "images": len(self.counts),
            "missing": int((self.counts < rounds).sum()),
            "more than once": int((self.counts > rounds + (rest > 0)).sum()),
            "other pixels": self.wrong,
            "other shape": self.shapes,
        }

    def verify(self, _request: dict[str, Any]) -> dict[str, Any]:
        """Return what the first epoch brought, and the last losses."""
        self.verified = True
        return self._answer({"images": None} if self.batches is None else self.first)

    def _answer(self, images: dict[str, Any]) -> dict[str, Any]:
        return {**images, "losses": numbers(self.training.fetched(self.outputs)) if self.trains else None}

    def recheck(self) -> dict[str, Any] | None:
        """Return None while the right images come, as often as each other, and the losses are finite."""
        if not self.verified:
            return None
        if self.batches is not None:
            self._look()
        answer = self._answer({"images": None} if self.batches is None else self._found())
        return None if judge(answer, "", {}).ok else answer

    def misplaced(self) -> str | None:
        return super().misplaced() if self.trains else None


# ---------------------------------------------------------------------------------------------------------------------
# Encoded images in a folder: finding them, making some where the user has none, and what each must become.
#
# Found with the standard library alone, since the parent looks, too. A made image is as large as what cameras and data
# sets give a network of that size (SIDE times its side) and holds smooth shapes under noise, so that its JPEG is as
# hard to decode as a photograph's: about 0.2 bytes a pixel at quality 90.


SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp")
SIDE = 1.75  # ImageNet's images are 400 by 350 on average, and networks take 224 by 224 of them
QUALITY = 90
SEED = 13
PAD = 4  # pixels by which an image is moved at most


def find(folder: str, count: int) -> list[str]:
    """The first `count` images below a folder, in the order of their paths; links are not followed."""
    found: list[str] = []
    for place, folders, files in os.walk(folder):
        folders.sort()
        paths = (os.path.join(place, name) for name in sorted(files) if name.lower().endswith(SUFFIXES))
        found += [path for path in paths if os.path.isfile(path)]  # reading a named pipe would wait for ever
        if len(found) >= count:
            break
    return found[:count]


def make_images(folder: str, image: tuple[int, int, int], count: int) -> None:
    """Write `count` JPEG files for a network that takes images of shape `image`: (height, width, channels)."""
    import numpy as np
    import tensorflow as tf

    height, width = int(image[0] * SIDE), int(image[1] * SIDE)
    for index in range(count):
        rng = np.random.default_rng([SEED, index])
        coarse = rng.uniform(40, 215, (height // 8 + 2, width // 8 + 2, image[2])).astype(np.float32)
        with tf.device("/CPU:0"):
            smooth = tf.image.resize(coarse, (height, width), method="bicubic").numpy()
            noise = rng.normal(0, 12, smooth.shape)
            pixels = np.clip(smooth + noise, 0, 255).astype(np.uint8)
            data = tf.io.encode_jpeg(pixels, quality=QUALITY)
        (Path(folder) / f"{index:06}.jpg").write_bytes(data.numpy())


def load(path: Any, image: tuple[int, int, int]) -> Any:
    """Read, decode and resize one file: uint8 of shape `image`."""
    import tensorflow as tf

    pixels = tf.io.decode_image(tf.io.read_file(path), channels=image[2], expand_animations=False)
    resized = tf.image.resize(tf.ensure_shape(pixels, (None, None, image[2])), image[:2])
    return tf.cast(tf.clip_by_value(resized + 0.5, 0.0, 255.0), tf.uint8)


def _chance(index: Any, step: int, below: int) -> Any:
    """A number from 0 to `below` - 1 for each index, the same in every epoch and in every pipeline; int64."""
    import tensorflow as tf

    mixed = tf.math.floormod((index + step) * 1103515245 + 12345, 2**31)
    return tf.math.floormod(mixed // 65536, below)


def augment(pixels: Any, index: Any, image: tuple[int, int, int]) -> Any:
    """Move, mirror and light one image: uint8 to float32 from 0 to 1, both of shape `image`; `index` is int64."""
    import tensorflow as tf

    height, width, channels = image
    padded = tf.pad(pixels, [[PAD, PAD], [PAD, PAD], [0, 0]])
    down, right = _chance(index, 1, 2 * PAD + 1), _chance(index, 2, 2 * PAD + 1)
    moved = tf.slice(padded, tf.stack([down, right, tf.zeros_like(down)]), [height, width, channels])
    mirrored = tf.cond(_chance(index, 3, 2) > 0, lambda: tf.reverse(moved, [1]), lambda: moved)
    gain = 0.8 + tf.cast(_chance(index, 101, 400), tf.float32) * 0.001
    shift = tf.cast(_chance(index, 211, 200), tf.float32) * 0.001 - 0.1
    return tf.clip_by_value(tf.cast(mirrored, tf.float32) * (gain * (1.0 / 255.0)) + shift, 0.0, 1.0)


@lru_cache(maxsize=4)
def expected(folder: str, image: tuple[int, int, int], count: int) -> tuple[int, ...]:
    """The checksum of each image, loaded and augmented one after the other, without a pipeline.

    Raises ValueError: a file is no image; the message names it.
    """
    import numpy as np
    import tensorflow as tf

    sums = []
    with tf.device("/CPU:0"):
        for index, path in enumerate(find(folder, count)):
            try:
                pixels = load(tf.constant(path), image)
            except tf.errors.OpError as error:
                name = os.path.relpath(path, folder)
                raise ValueError(f"{name} in the data set cannot be decoded: {str(error)[:200]}") from error
            ready = augment(pixels, tf.constant(index, tf.int64), image)
            sums.append(zlib.crc32(np.ascontiguousarray(ready.numpy())))
    return tuple(sums)


# ---------------------------------------------------------------------------------------------------------------------
# The same images through tf.data with different knobs turned: what each costs or brings.
#
# TensorFlow turns some knobs by itself (map_parallelization and inject_prefetch, on by default): here they are off, so
# that each knob shows what it does, and *as TensorFlow tunes it* is the sequential code with them on.


PREFETCH = 2  # batches that wait ready, as many as TensorFlow's guide starts from; known, so that they can be used up
READY = PREFETCH + 1  # batches that may wait ready, and are used up before
OWN = ("map_parallelization", "inject_prefetch", "map_and_batch_fusion", "parallel_batch", "map_fusion")


class Pipeline(NamedTuple):
    """Which knobs are turned."""

    base: str | None = None  # the pipeline that lacks one knob of this one, or several of the last
    tuned: bool = False  # TensorFlow may optimise the graph
    parallel_map: bool = False  # images are augmented by several threads
    parallel_decode: bool = False  # and read and decoded
    cache: bool = False  # decoded images stay in memory after the first epoch
    prefetch: bool = False  # the next batches are made while the model computes
    to_device: bool = False  # and copied to the device


_DECODING = Pipeline("parallel map", parallel_map=True, parallel_decode=True)
PIPELINES = {
    "sequential": Pipeline(),
    "as TensorFlow tunes it": Pipeline("sequential", tuned=True),
    "parallel map": Pipeline("sequential", parallel_map=True),
    "parallel decode": _DECODING,
    "cache": _DECODING._replace(base="parallel decode", cache=True),
    "prefetch": _DECODING._replace(base="parallel decode", prefetch=True),
    "prefetch to device": _DECODING._replace(base="prefetch", prefetch=True, to_device=True),
    "everything": _DECODING._replace(base="sequential", cache=True, prefetch=True),
}
ALONE = ("sequential", "as TensorFlow tunes it", "parallel map", "parallel decode", "cache")
FEEDING = ("sequential", "as TensorFlow tunes it", "parallel decode", "prefetch", "prefetch to device", "everything")


def build(
    files: Sequence[str], image: tuple[int, int, int], classes: int, size: int, chosen: Pipeline, device: str | None
) -> Any:
    """Return an endless dataset of (images float32 [size, h, w, c], labels int32 [size], index int64 [size]).

    Args:
        device: where batches are copied to in advance, where the pipeline does that.
    """
    import tensorflow as tf

    data = tf.data
    auto = getattr(data, "AUTOTUNE", None) or data.experimental.AUTOTUNE
    plain = tf.autograph.experimental.do_not_convert  # which would leave files behind in the folder for temporary ones

    def decoded(path: Any, label: Any, index: Any) -> Any:
        return load(path, image), label, index

    def augmented(pixels: Any, label: Any, index: Any) -> Any:
        return augment(pixels, index, image), label, index

    with tf.device("/CPU:0"):
        labels = [index % classes for index in range(len(files))]
        indices = tf.range(len(files), dtype=tf.int64)
        found = data.Dataset.from_tensor_slices((list(files), tf.constant(labels, tf.int32), indices))
        found = found.map(plain(decoded), num_parallel_calls=auto if chosen.parallel_decode else None)
        found = (found.cache() if chosen.cache else found).repeat()
        found = found.map(plain(augmented), num_parallel_calls=auto if chosen.parallel_map else None)
        found = found.batch(size, drop_remainder=True)
        found = found.prefetch(PREFETCH) if chosen.prefetch and not chosen.to_device else found
        options = data.Options()
        for name in () if chosen.tuned else OWN:
            if hasattr(options.experimental_optimization, name):  # another TensorFlow has others
                setattr(options.experimental_optimization, name, False)
        found = found.with_options(options)
        if chosen.to_device and device is not None:
            found = found.apply(data.experimental.prefetch_to_device(device, PREFETCH))
    return found
