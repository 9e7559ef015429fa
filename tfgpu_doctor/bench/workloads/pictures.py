"""Encoded images in a folder: finding them, making some where the user has none, and what each must become.

Found with the standard library alone, since the parent looks, too. A made image is as large as what cameras and data
sets give a network of that size (SIDE times its side) and holds smooth shapes under noise, so that its JPEG is as hard
to decode as a photograph's: about 0.2 bytes a pixel at quality 90.
"""

from __future__ import annotations

import os
import zlib
from functools import lru_cache
from pathlib import Path
from typing import Any

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


def make(folder: str, image: tuple[int, int, int], count: int) -> None:
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


def _light(index: Any) -> tuple[Any, Any]:
    """Factor and summand that turn 0..255 into 0..1, a little brighter or darker."""
    import tensorflow as tf

    gain = 0.8 + tf.cast(_chance(index, 101, 400), tf.float32) * 0.001
    shift = tf.cast(_chance(index, 211, 200), tf.float32) * 0.001 - 0.1
    return gain * (1.0 / 255.0), shift


def augment(pixels: Any, index: Any, image: tuple[int, int, int]) -> Any:
    """Move, mirror and light one image: uint8 to float32 from 0 to 1, both of shape `image`; `index` is int64."""
    import tensorflow as tf

    height, width, channels = image
    padded = tf.pad(pixels, [[PAD, PAD], [PAD, PAD], [0, 0]])
    down, right = _chance(index, 1, 2 * PAD + 1), _chance(index, 2, 2 * PAD + 1)
    moved = tf.slice(padded, tf.stack([down, right, tf.zeros_like(down)]), [height, width, channels])
    mirrored = tf.cond(_chance(index, 3, 2) > 0, lambda: tf.reverse(moved, [1]), lambda: moved)
    factor, shift = _light(index)
    return tf.clip_by_value(tf.cast(mirrored, tf.float32) * factor + shift, 0.0, 1.0)


def augment_batch(pixels: Any, index: Any, image: tuple[int, int, int]) -> Any:
    """The same for a batch at once: uint8 [n, h, w, c], int64 [n]; the same numbers, bit by bit."""
    import tensorflow as tf

    height, width, _ = image
    padded = tf.pad(pixels, [[0, 0], [PAD, PAD], [PAD, PAD], [0, 0]])
    rows = _chance(index, 1, 2 * PAD + 1)[:, None] + tf.range(height, dtype=tf.int64)
    columns = tf.range(width, dtype=tf.int64)[None, :]
    columns = tf.where((_chance(index, 3, 2) > 0)[:, None], width - 1 - columns, columns)
    columns = _chance(index, 2, 2 * PAD + 1)[:, None] + columns
    moved = tf.gather(tf.gather(padded, rows, axis=1, batch_dims=1), columns, axis=2, batch_dims=1)
    factor, shift = (one[:, None, None, None] for one in _light(index))
    return tf.clip_by_value(tf.cast(moved, tf.float32) * factor + shift, 0.0, 1.0)


def checksum(pixels: Any) -> int:
    """Of one image, a contiguous NumPy array."""
    return zlib.crc32(pixels)


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
            sums.append(checksum(np.ascontiguousarray(ready.numpy())))
    return tuple(sums)
