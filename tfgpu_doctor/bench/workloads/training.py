"""Training on one device or on several: the strategy, values on each device, waiting, and where things were computed.

For workloads that train with tf.distribute. Worker side: TensorFlow is imported inside the functions.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from ..statistics import median, median_interval
from .judgement import short
from .models import MODELS, batch, build

# What convolutional networks compute; where these stand is where the training happens.
PRODUCTS = frozenset(
    {"MatMul", "BatchMatMulV2", "Conv2D", "Conv2DBackpropInput", "Conv2DBackpropFilter", "DepthwiseConv2dNative"}
)

CALLS = frozenset({"PartitionedCall", "StatefulPartitionedCall"})

# What TensorFlow, cuDNN, cuBLAS and XLA say beside ResourceExhaustedError when memory is what they lack: as
# InternalError, UnknownError or NotFoundError (tensorflow/python/framework/errors_impl.py).
NO_MEMORY = (
    *("RESOURCE_EXHAUSTED", "Out of memory", "out of memory", "OOM when allocating", "CUDA_ERROR_OUT_OF_MEMORY"),
    *("CUDNN_STATUS_ALLOC_FAILED", "CUBLAS_STATUS_ALLOC_FAILED", "Failed to allocate", "failed to allocate"),
)


class NoRoomError(Exception):
    """The memory of a device does not hold what a step needs; the message says what there was no room for."""


@contextmanager
def room_for(what: str) -> Iterator[None]:
    """Turn TensorFlow's ways to say that memory is missing into one. Raises NoRoomError: memory is missing."""
    import tensorflow as tf

    try:
        yield
    except (MemoryError, tf.errors.OpError) as error:
        lacking = isinstance(error, (MemoryError, tf.errors.ResourceExhaustedError))
        if not lacking and not any(word in str(error) for word in NO_MEMORY):
            raise
        raise NoRoomError(f"not enough memory for {what}: try a smaller --batch-size") from error


def limit_memory(more: int) -> None:
    """Refuse this process more than `more` bytes beside what it has, so that the system never runs out of memory.

    An allocation that is refused is TensorFlow's ResourceExhaustedError, or the end of this process. Linux only: other
    systems count otherwise.
    """
    import resource

    status = Path("/proc/self/status").read_text().split()
    have = 1024 * int(status[status.index("VmData:") + 1])
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    wanted = have + more
    resource.setrlimit(resource.RLIMIT_DATA, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard))


def strategy_over(devices: Sequence[str]) -> Any:
    """OneDeviceStrategy for one device, MirroredStrategy for several."""
    import tensorflow as tf

    if len(devices) == 1:
        return tf.distribute.OneDeviceStrategy(devices[0])
    return tf.distribute.MirroredStrategy(list(devices))


def place(strategy: Any, devices: Sequence[str], make: Callable[[int], Any], first: int = 0) -> Any:
    """What `make` returns for each replica's number, on that replica's device, to be given to `strategy.run`.

    Args:
        first: the number of the replica on the first of `devices`, where there are others on other machines.
    """
    import tensorflow as tf

    def value(context: Any) -> Any:
        index = int(context.replica_id_in_sync_group) - first
        with tf.device(devices[index]):
            return tf.nest.map_structure(lambda one: tf.identity(tf.constant(one)), make(index))

    return strategy.experimental_distribute_values_from_function(value)


def synchronise(results: Iterable[Any], only: Sequence[str] = ()) -> None:
    """Wait until every device has done what was queued; `results` are tensors or variables that come last.

    Args:
        only: this machine's devices, where there are others on other machines, which cannot be waited for.
    """
    import tensorflow as tf

    sync = getattr(getattr(tf.test, "experimental", None), "sync_devices", None)
    if sync is None:  # TensorFlow before 2.12: fetching a number that depends on the result waits for it
        for result in results:
            float(tf.reduce_sum(tf.cast(result, tf.float32)).numpy())
    elif only:
        for device in only:
            with tf.device(device):
                tf.raw_ops.SyncDevice()
    else:
        sync()


def copies(strategy: Any, weight: Any) -> list[Any]:
    """What each replica holds of a Keras weight, in the order of the replicas."""
    held = weight if callable(weight.value) else weight.value  # Keras 3 wraps the variable
    return list(strategy.experimental_local_results(held))


def count_identical(strategy: Any, weights: Sequence[Any]) -> int:
    """Return how many of the weights are the same in all replicas, bit by bit."""
    import numpy as np

    same = 0
    for weight in weights:
        first, *others = (one.numpy() for one in copies(strategy, weight))
        same += all(np.array_equal(first, other) for other in others)
    return same


def on_devices(tensors: Iterable[Any]) -> list[str]:
    """The device whose memory holds each tensor, short: "/GPU:0"."""
    return [short(tensor.backing_device) for tensor in tensors]


def misplaced(devices: Sequence[str], found: Sequence[str], graph: Any, *, compiled: bool = False) -> str | None:
    """Say what was computed elsewhere than asked for; None when nothing was.

    Args:
        found: where each replica's result lies.
        graph: of the compiled function, whose convolutions and products name their device.
        compiled: they are inside a function that XLA compiles, and its call names the device.
    """
    for want, got in zip(devices, found):
        if want != got:
            return f"computed on {got} instead of {want}"
    kinds = CALLS if compiled else PRODUCTS
    inside = {short(op.device) for op in graph.get_operations() if op.type in kinds}
    if inside != set(devices):
        return f"products on {', '.join(sorted(inside))} instead of {', '.join(devices)}"
    return None


# ---------------------------------------------------------------------------------------------------------------------
# Training a classifier of models.py: the step that is measured, and the same steps by other means to compare it with.
#
# The step: forward, softmax cross-entropy, gradients, their sum over all replicas, SGD with momentum. Under XLA the
# forward and backward pass are compiled in every case, the sum and the update in none: so one device and several run
# the same code, where compiling all of it fails under MirroredStrategy (InvalidArgumentError, TensorFlow 2.21).
# float16 has its loss scaled by a fixed factor, taken out of the gradients again.


MOMENTUM = 0.9
SCALE = {"mixed_float16": 1024.0}  # of the loss, so that small gradients do not vanish in float16
DATA_SEED = 1


class Training:
    """A network, its optimiser, and the compiled step over the devices of a strategy.

    Args:
        replicas: of all machines; the loss is averaged over them.
        first: the number of this machine's first replica.
    """

    def __init__(
        self, strategy: Any, devices: list[str], name: str, dtype: str, xla: bool, replicas: int, first: int = 0
    ) -> None:
        """Build it; nothing is computed yet."""
        import tensorflow as tf

        self.strategy, self.devices, self.name, self.dtype = strategy, devices, name, dtype
        self.replicas, self.first, self.xla = replicas, first, xla
        with lenient(), strategy.scope():
            self.model = build(name, dtype)
            self.optimizer = sgd(tf, MODELS[name].learning_rate)
            if hasattr(self.optimizer, "build"):  # its variables cannot be made within the step
                self.optimizer.build(self.model.trainable_variables)
        self.initial = self.model.get_weights()
        passes = tf.function(self._gradients, jit_compile=True, autograph=False) if xla else self._gradients
        self.passes = passes
        self.step = tf.function(self._step, autograph=False)

    def data(self, each: int) -> tuple[Any, ...]:
        """Images and labels, `each` on every replica, on the devices."""
        import numpy as np

        images, labels = batch(self.name, each * self.replicas, DATA_SEED)
        labels = labels.astype(np.int64)  # int32 lies on the host even where its device is a GPU

        def shard(values: Any) -> Any:
            return lambda index: np.ascontiguousarray(values[(self.first + index) * each :][:each])

        return tuple(place(self.strategy, self.devices, shard(values), self.first) for values in (images, labels))

    def reset(self) -> None:
        """Go back to the initial weights, and to an optimiser that has seen nothing."""
        self.model.set_weights(self.initial)
        variables = self.optimizer.variables
        for variable in variables() if callable(variables) else variables:
            if len(variable.shape):  # not the count of steps, nor the learning rate
                for copy in copies(self.strategy, variable):
                    copy.assign(copy * 0)

    def weights(self) -> list[Any]:
        """Trained weights of this machine's first replica, NumPy arrays."""
        return [copies(self.strategy, weight)[0].numpy() for weight in self.model.trainable_variables]

    def wait(self, results: Sequence[Any] = ()) -> None:
        """Wait until this machine's devices have done what was queued: a step, or what gave `results`."""
        synchronise(results or self.tensors()[-1:], self.devices if self.replicas > len(self.devices) else ())

    def gradient_bytes(self) -> int:
        """What every step has to sum over the replicas: float32 for each trained weight."""
        return sum(4 * int(weight.shape.num_elements()) for weight in self.tensors())

    def tensors(self) -> list[Any]:
        """The variables of the first replica."""
        return [copies(self.strategy, weight)[0] for weight in self.model.trainable_variables]

    def _gradients(self, images: Any, labels: Any) -> tuple[Any, list[Any]]:
        """Loss of one replica's images, and its part of the gradients, in float32."""
        return gradients_of(self.model, images, labels, SCALE.get(self.dtype, 1.0), self.replicas)

    def _replica_step(self, images: Any, labels: Any) -> Any:
        loss, gradients = self.passes(images, labels)
        self.optimizer.apply_gradients(zip(gradients, self.model.trainable_variables))  # sums over the replicas first
        return loss

    def _step(self, images: Any, labels: Any) -> Any:
        """Losses, one for each of this machine's replicas."""
        losses = self.strategy.run(self._replica_step, args=(images, labels))
        return self.strategy.experimental_local_results(losses)


@contextmanager
def lenient() -> Iterator[None]:
    """Let TensorFlow itself place what has no kernel on a GPU, while a network is built and its weights are made.

    What is measured runs without this.
    """
    import tensorflow as tf

    before = tf.config.get_soft_device_placement()
    tf.config.set_soft_device_placement(True)
    try:
        yield
    finally:
        tf.config.set_soft_device_placement(before)


def gradients_of(model: Any, images: Any, labels: Any, scale: float, replicas: int) -> tuple[Any, list[Any]]:
    """The mean loss of a batch, and the gradients of that loss divided by the number of replicas."""
    import tensorflow as tf

    with tf.GradientTape() as tape:
        logits = model(images, training=True)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
        loss = tf.reduce_mean(losses)
        scaled = loss * (scale / replicas)
    gradients = tape.gradient(scaled, model.trainable_variables)
    return loss, gradients if scale == 1.0 else [gradient * (1.0 / scale) for gradient in gradients]


def sgd(tf: Any, rate: float) -> Any:
    """Keras's SGD with momentum, not compiled on its own: Keras 2.11 to 2.15 would compile it on a GPU alone."""
    try:
        return tf.keras.optimizers.SGD(rate, momentum=MOMENTUM, jit_compile=False)
    except (TypeError, ValueError):  # other Keras know no such argument
        return tf.keras.optimizers.SGD(rate, momentum=MOMENTUM)


def train_apart(
    name: str, dtype: str, device: str, each: int, shards: int, steps: int
) -> tuple[list[list[float]], list[Any]]:
    """The same training without strategy and without Keras's optimiser: one device, the replicas' batches in turn.

    Returns:
        for every step the loss of each shard, and the trained weights, NumPy arrays.
    """
    import numpy as np
    import tensorflow as tf

    images, labels = batch(name, each * shards, DATA_SEED)
    kind = np.float64 if dtype == "float64" else np.float32
    rate, scale = MODELS[name].learning_rate, SCALE.get(dtype, 1.0)
    with lenient(), tf.device(device):
        model = build(name, dtype)
        weights = model.trainable_variables
        velocity = [tf.zeros_like(tf.convert_to_tensor(weight)) for weight in weights]
        parts = [
            (tf.constant(images[first : first + each].astype(kind)), tf.constant(labels[first : first + each]))
            for first in range(0, each * shards, each)
        ]
        passes = tf.function(lambda one, other: gradients_of(model, one, other, scale, shards), autograph=False)
        losses = []
        for _ in range(steps):
            found = [passes(*part) for part in parts]
            losses.append([float(loss) for loss, _ in found])
            for index, weight in enumerate(weights):
                total = tf.add_n([gradients[index] for _, gradients in found])
                velocity[index] = MOMENTUM * velocity[index] - rate * total
                weight.assign_add(velocity[index])
        return losses, [weight.numpy() for weight in weights]


# ---------------------------------------------------------------------------------------------------------------------
# What `model.fit` gives with the same network, data and batch: what people use, shown beside the custom loop.
#
# As its users have it: data from tf.data, loss and no further metric, TensorFlow places what needs the CPU there (soft
# placement). XLA as in the case, never "auto", which would be another compiler on each kind of device.


EPOCH = 0.3  # seconds that the steps of an epoch shall take together
EPOCHS = 6  # that are timed, behind one that traces
SLOW = 5.0  # seconds of a step above which fit is not tried: it would keep the user waiting for minutes


def fit(training: Training, each: int, step_s: float) -> tuple[list[dict[str, Any]], list[str]]:
    """The figure "fit", images/s of all replicas, or why there is none.

    Args:
        each: images on each replica.
        step_s: seconds of a step of the custom loop, for how many steps an epoch shall have.
    """
    if training.xla and training.replicas > 1:
        return [], ["model.fit not measured: with XLA it fails under MirroredStrategy (InvalidArgumentError)"]
    if step_s > SLOW:
        return [], [f"model.fit not measured: a step takes {step_s:.0f} s"]
    import tensorflow as tf

    steps = max(1, min(round(EPOCH / max(step_s, 1e-4)), 200))
    try:
        with lenient():
            seconds = _epochs(tf, training, each, steps)
    except (tf.errors.OpError, ValueError, TypeError, RuntimeError) as error:  # Keras's, on whose fit nothing depends
        reason = str(error).strip().splitlines()[:1]
        return [], [": ".join([f"model.fit not measured: {type(error).__name__}", *reason])[:200]]
    work = each * training.replicas * steps
    low, high = median_interval(seconds)
    note = f"model.fit, {steps} steps an epoch, {len(seconds)} epochs, batches from tf.data"
    figure = {"name": "fit", "value": work / median(seconds), "unit": "images/s", "note": note}
    return [{**figure, "ci95": [work / high, work / low]}], []


def _epochs(tf: Any, training: Training, each: int, steps: int) -> list[float]:
    """Seconds of each epoch of `steps` steps, but the first, which traces."""
    images, labels = batch(training.name, each * training.replicas, DATA_SEED)
    with tf.device("/CPU:0"):
        data = tf.data.Dataset.from_tensors((images, labels)).repeat().prefetch(2)
    with training.strategy.scope():
        _compile(tf, training)
    watch = _watch(tf)
    training.model.fit(data, epochs=EPOCHS + 1, steps_per_epoch=steps, verbose=0, callbacks=[watch])
    seconds: list[float] = watch.seconds[1:]
    return seconds


def _compile(tf: Any, training: Training) -> None:
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    settings = {"optimizer": sgd(tf, MODELS[training.name].learning_rate), "loss": loss}
    try:
        training.model.compile(**settings, jit_compile=training.xla)
    except TypeError:  # Keras before 2.6 knows no such argument, and compiles nothing
        training.model.compile(**settings)


def _watch(tf: Any) -> Any:
    """A callback that notes how long each epoch took. `fit` fetches the loss at its end, which waits for the steps."""

    class Watch(tf.keras.callbacks.Callback):  # type: ignore[misc]  # Keras is not there when types are checked
        def __init__(self) -> None:
            super().__init__()
            self.seconds: list[float] = []
            self.began = 0.0

        def on_epoch_begin(self, _epoch: int, _logs: Any = None) -> None:
            self.began = time.perf_counter()

        def on_epoch_end(self, _epoch: int, _logs: Any = None) -> None:
            self.seconds.append(time.perf_counter() - self.began)

    return Watch()


# ---------------------------------------------------------------------------------------------------------------------
# Where the time of several replicas goes: the sum of the gradients, and replicas that keep one another waiting.
#
# Measured by functions of their own beside the step, each run in blocks that are waited for once:
#   all-reduce   the sum over all replicas of as many float32 as a step sums, in the same pieces
#   alone        forward and backward pass of the first replica, while the others rest
#   together     the same of all replicas, without sum and update
# A step may do the sum while it computes the next gradients, so that these do not add up to the step.


BLOCKS = 7
BLOCK = 0.05  # seconds that a block shall take


def shares(
    training: Training, data: tuple[Any, ...], announce: Callable[[int], None] = lambda _: None
) -> list[dict[str, Any]]:
    """The figures "gradients alone", "gradients together", "all-reduce" (s a step) and its bus bandwidth (B/s).

    Args:
        announce: called before each block of so many all-reduces, for other machines to take part.
    """
    alone = timed(training, _passes(training, data, only_first=True))
    together = timed(training, _passes(training, data, only_first=False))
    call, by = all_reduce(training)
    reduce = timed(training, call, announce)
    size, count = training.gradient_bytes(), training.replicas
    seconds = median(reduce)
    bus = {
        "name": "all-reduce bus bandwidth",
        "value": size / seconds * 2 * (count - 1) / count,
        "unit": "B/s",
        "note": f"{size} bytes of gradients / time × 2(n-1)/n, {by}",
    }
    return [
        _figure("gradients alone", alone, "one replica computes, the others rest"),
        _figure("gradients together", together, "all replicas compute; no sum, no update"),
        _figure("all-reduce", reduce, f"sum of the gradients, {by}"),
        bus,
    ]


def _figure(name: str, seconds: list[float], note: str) -> dict[str, Any]:
    low, high = median_interval(seconds)
    return {"name": name, "value": median(seconds), "unit": "s", "ci95": [low, high], "note": note}


def timed(training: Training, call: Callable[[], Any], announce: Callable[[int], None] = lambda _: None) -> list[float]:
    """Seconds of a call, each the mean over a block that is waited for once."""

    def one(count: int) -> float:
        announce(count)
        return block(training, call, count)

    one(1)  # traces
    count = max(1, min(round(BLOCK / max(one(1), 1e-5)), 500))
    return [one(count) for _ in range(BLOCKS)]


def block(training: Training, call: Callable[[], Any], count: int) -> float:
    """Seconds of a call, of `count` that are waited for once."""
    started = time.perf_counter()
    for _ in range(count):
        last = call()
    training.wait(last)
    return (time.perf_counter() - started) / count


def _passes(training: Training, data: tuple[Any, ...], *, only_first: bool) -> Callable[[], Any]:
    """Forward and backward pass, all gradients summed up to one number so that none is left out."""
    import tensorflow as tf

    strategy = training.strategy

    def replica(images: Any, labels: Any) -> Any:
        nothing = tf.zeros([])  # its device tells the replicas apart: their number is no number while this is traced
        if only_first and short(nothing.device) != short(training.devices[0]):
            return nothing
        loss, gradients = training.passes(images, labels)
        return loss + tf.add_n([tf.reduce_sum(gradient) for gradient in gradients])

    def run(images: Any, labels: Any) -> Any:
        return strategy.experimental_local_results(strategy.run(replica, args=(images, labels)))

    function = tf.function(run, autograph=False)
    return lambda: function(*data)


def all_reduce(training: Training) -> tuple[Callable[[], Any], str]:
    """The sum of what has the shapes of the gradients; and who does it, by the compiled graph."""
    import tensorflow as tf

    strategy = training.strategy
    shapes = [tuple(weight.shape) for weight in training.tensors()]
    values = [place(strategy, training.devices, partial(_ones, shape), training.first) for shape in shapes]

    def replica(*parts: Any) -> Any:
        context = tf.distribute.get_replica_context()
        return context.all_reduce(tf.distribute.ReduceOp.SUM, [tf.identity(part) for part in parts])

    def run(*parts: Any) -> Any:
        summed = strategy.run(replica, args=parts)
        return [one for value in summed for one in strategy.experimental_local_results(value)]

    function = tf.function(run, autograph=False)
    return lambda: function(*values), implementation(function.get_concrete_function(*values).graph)


def _ones(shape: tuple[int, ...], _index: int) -> Any:
    import tensorflow as tf

    return tf.ones(shape)


def implementation(graph: Any) -> str:
    """Who sums, by the operations of a compiled graph: "NCCL", "TensorFlow's ring", "reduction to one device"."""
    for op in graph.get_operations():
        if op.type.startswith("CollectiveReduce"):
            hint = op.get_attr("communication_hint").decode()
            return "NCCL" if hint == "nccl" else "TensorFlow's ring"  # which "auto" is, too
        if op.type.startswith("Nccl"):
            return "NCCL"
    return "reduction to one device"
