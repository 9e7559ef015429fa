"""Training on one device or on several: the networks, the step that is measured, and what it is compared with.

For workloads that train with tf.distribute: cnn, gan, input; first, what every workload uses. Standard library only at
the top, since the parent reads the verdicts; TensorFlow is imported inside the functions.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from .models import MODELS, batch, build

# What convolutional networks compute; where these stand is where the training happens.
PRODUCTS = frozenset(
    {"MatMul", "BatchMatMulV2", "Conv2D", "Conv2DBackpropInput", "Conv2DBackpropFilter", "DepthwiseConv2dNative"}
)
CALLS = frozenset({"PartitionedCall", "StatefulPartitionedCall"})


@dataclass(frozen=True)
class Check:
    """One thing that was looked at: "loss falls", "2.31 to 0.42"."""

    name: str
    ok: bool
    saw: str


@dataclass(frozen=True)
class Judgement:
    """Whether a result is right, and how that is known."""

    ok: bool
    method: str
    residual: float | None = None  # relative error; None when it is not a number, or when there is none to give
    tolerance: float | None = None
    why: str = ""  # what is wrong, as a sentence without its end; empty when nothing is
    checks: tuple[Check, ...] = ()
    computed_in: str | None = None  # the type that the residual speaks of, where that is another than asked for


def judged(method: str, checks: Iterable[Check], **details: Any) -> Judgement:
    """Return the verdict of checks, all of which must hold; `details` are other fields of it."""
    found = tuple(checks)
    wrong = [f"failed: {check.name} ({check.saw})" for check in found if not check.ok]
    return Judgement(ok=not wrong, method=method, why="; ".join(wrong), checks=found, **details)


def finite(value: float) -> float | None:
    """Return the number; None for what JSON cannot carry."""
    return value if math.isfinite(value) else None


def numbers(values: Iterable[float]) -> list[float | None]:
    """Return the numbers; None for each that JSON cannot carry."""
    return [finite(value) for value in values]


def short(device: str) -> str:
    """ "/job:localhost/replica:0/task:0/device:GPU:0" as "/GPU:0"."""
    return "/" + device.rpartition("device:")[2] if "device:" in device else device


def strategy_over(devices: Sequence[str]) -> Any:
    """Return OneDeviceStrategy for one device, MirroredStrategy for several."""
    import tensorflow as tf

    if len(devices) == 1:
        return tf.distribute.OneDeviceStrategy(devices[0])
    if not os.environ.get("TF_CONFIG"):  # an empty one is no JSON, which TensorFlow does not forgive
        os.environ.pop("TF_CONFIG", None)
    return tf.distribute.MirroredStrategy(list(devices))


def place(strategy: Any, devices: Sequence[str], make: Callable[[int], Any], first: int = 0) -> Any:
    """Put what `make` returns for each replica's number on that replica's device, to be given to `strategy.run`.

    Args:
        first: the number of the replica on the first of `devices`, where there are others on other machines.
    """
    import tensorflow as tf

    def value(context: Any) -> Any:
        index = int(context.replica_id_in_sync_group) - first
        with tf.device(devices[index]):
            return tf.identity(tf.constant(make(index)))

    return strategy.experimental_distribute_values_from_function(value)


def synchronise(devices: Iterable[str], last: Iterable[Any] = ()) -> None:
    """Wait until devices have done what was queued; `last` are the tensors or variables that come last on them."""
    import tensorflow as tf

    wait: Any = getattr(tf.raw_ops, "SyncDevice", None)
    for result in last if wait is None else ():  # TensorFlow before 2.12: a number that depends on it waits for it
        float(tf.reduce_sum(tf.cast(result, tf.float32)).numpy())
    for device in devices if wait else ():
        with tf.device(device):
            wait()


def summing(strategy: Any) -> Any:
    """Compile a function that sums a tensor over all replicas; it returns what every replica here gets."""
    import tensorflow as tf

    def replica(part: Any) -> Any:
        context = tf.distribute.get_replica_context()
        return context.all_reduce(tf.distribute.ReduceOp.SUM, tf.identity(part))  # on its device

    def run(part: Any) -> Any:
        return strategy.experimental_local_results(strategy.run(replica, args=(part,)))

    return tf.function(run, autograph=False)


def copies(strategy: Any, weight: Any) -> list[Any]:
    """Return what each replica holds of a Keras weight, in the order of the replicas."""
    held = weight if callable(weight.value) else weight.value  # Keras 3 wraps the variable
    return list(strategy.experimental_local_results(held))


def on_devices(tensors: Iterable[Any]) -> list[str]:
    """Return the device whose memory holds each tensor, short: "/GPU:0"."""
    return [short(tensor.backing_device) for tensor in tensors]


def unchanged(devices: Sequence[str], found: Sequence[Any], trusted: Sequence[Any]) -> bool:
    """True if tensors are those that are trusted, bit by bit; compared where they lie. Not-a-number never is."""
    import tensorflow as tf

    same = []
    for device, one, other in zip(devices, found, trusted):
        with tf.device(device):
            same.append(tf.reduce_all(tf.equal(one, other)))
    return len(found) == len(trusted) and all(bool(one.numpy()) for one in same)


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


class BaseWorkload:
    """What every workload has in the worker: the head of the folder's __init__.py lists what it must offer."""

    unchanged: Callable[[], bool]  # True if the last result is the verified one bit by bit
    compare: Callable[[], dict[str, Any]]  # what is needed to judge the last result

    def __init__(self, parameters: dict[str, Any], dtype: str, devices: list[str], spread: str) -> None:
        self.parameters, self.dtype, self.devices, self.spread = parameters, dtype, devices, spread
        self.cold: dict[str, float] = {}
        self.outputs: Any = ()  # tensors that the last sample left, in the order of the devices
        self.verified = False

    @contextmanager
    def starting(self, name: str) -> Iterator[None]:
        """Time a part of the set-up."""
        started, before = time.perf_counter(), sum(self.cold.values())
        yield
        self.cold[name] = time.perf_counter() - started - (sum(self.cold.values()) - before)

    def placed_on(self) -> list[str]:
        """Return the device whose memory holds each result.

        `backing_device`, because the `device` of a function's output on a second CPU device names the first.
        """
        return on_devices(self.outputs)

    def recheck(self) -> dict[str, Any] | None:
        """Return None when the last result is the verified one bit by bit, or nothing was verified yet."""
        return None if not self.verified or self.unchanged() else self.compare()


# ---------------------------------------------------------------------------------------------------------------------
# A training and its compiled step: gradients of each replica's data, their sum over all replicas, the update.
#
# Under XLA the forward and backward pass are compiled in every case, the sum and the update in none: so one device and
# several run the same code, where compiling all of it fails under MirroredStrategy (InvalidArgumentError, TF 2.21).


SCALE = {"mixed_float16": 1024.0}  # of the loss, so that small gradients do not vanish in float16; taken out again
MOMENTUM = 0.9
DATA_SEED = 1


class Training:
    """A classifier of models.py, its optimiser, and the compiled step over the devices of a strategy.

    The loss is the softmax cross-entropy, the optimiser SGD with momentum. gan.py trains two networks instead.

    Args:
        replicas: of all machines; losses are averaged over them.
        first: the number of this machine's first replica.
        shards: batches that a replica computes one after the other; for the comparison with as many replicas.
    """

    def __init__(
        self,
        strategy: Any,
        devices: list[str],
        name: str,
        dtype: str,
        replicas: int,
        first: int = 0,
        *,
        xla: bool = False,
        shards: int = 1,
    ) -> None:
        import tensorflow as tf

        self.strategy, self.devices, self.name, self.dtype = strategy, devices, name, dtype
        self.replicas, self.first, self.xla, self.shards = replicas, first, xla, shards
        with lenient(), strategy.scope():
            self.networks, self.optimizers = zip(*self.make())
            for network, optimizer in zip(self.networks, self.optimizers):
                optimizer.jit_compile = False  # Keras 2.11 to 2.15 would compile it on a GPU alone
                if hasattr(optimizer, "build"):  # its variables cannot be made within the step
                    optimizer.build(network.trainable_variables)
        self.initial = [network.get_weights() for network in self.networks]
        self.passes: Any = tf.function(self.gradients, jit_compile=True, autograph=False) if xla else self.gradients
        local = strategy.experimental_local_results
        self.step = tf.function(lambda *data: local(strategy.run(self._replica_step, args=data)), autograph=False)

    def make(self) -> list[tuple[Any, Any]]:
        """Make each network, whose weights are always the same, with its optimiser."""
        import tensorflow as tf

        rate = MODELS[self.name].learning_rate
        return [(build(self.name, self.dtype), tf.keras.optimizers.SGD(rate, momentum=MOMENTUM))]

    def data(self, each: int) -> tuple[Any, ...]:
        """Put the data of a step on the devices, `each` images for every shard of every replica."""
        import numpy as np

        count = each * self.shards
        images, labels = batch(self.name, count * self.replicas, DATA_SEED)
        labels = labels.astype(np.int64)  # int32 lies on the host even where its device is a GPU

        def part(values: Any) -> Any:
            return lambda index: np.ascontiguousarray(values[(self.first + index) * count :][:count])

        return tuple(place(self.strategy, self.devices, part(values), self.first) for values in (images, labels))

    def losses(self, _shard: int, *data: Any) -> list[Any]:
        """Return the loss of each network over one batch, a mean over its images."""
        import tensorflow as tf

        images, labels = data
        logits = self.networks[0](images, training=True)
        return [tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))]

    def gradients(self, *data: Any) -> tuple[Any, list[Any]]:
        """Return the losses of each shard of a replica's data, and its part of the gradients of all networks, float32.

        The shards are computed one after the other.
        """
        import tensorflow as tf

        scale = SCALE.get(self.dtype, 1.0)
        losses: list[Any] = []
        gradients: list[Any] = []
        several = self.shards > 1
        for index, part in enumerate(zip(*(tf.split(one, self.shards) for one in data)) if several else [data]):
            with tf.control_dependencies(gradients):  # the memory of the one before is free again
                with tf.GradientTape(persistent=len(self.networks) > 1) as tape:
                    found = self.losses(index, *(map(tf.identity, part) if several else part))
                    scaled = [loss * (scale / (self.replicas * self.shards)) for loss in found]
                new = [
                    gradient if scale == 1.0 else gradient * (1.0 / scale)
                    for loss, network in zip(scaled, self.networks)
                    for gradient in tape.gradient(loss, network.trainable_variables)
                ]
                gradients = [a + b for a, b in zip(gradients, new)] if gradients else new
            losses.append(tf.stack(found) if len(found) > 1 else found[0])
        return losses[0] if len(losses) == 1 else tf.stack(losses), gradients

    def _replica_step(self, *data: Any) -> Any:
        losses, gradients = self.passes(*data)
        for network, optimizer in zip(self.networks, self.optimizers):  # which sums over the replicas first
            count = len(network.trainable_variables)
            optimizer.apply_gradients(zip(gradients[:count], network.trainable_variables))
            gradients = gradients[count:]
        return losses

    def run(self, *data: Any) -> Any:
        """Queue one step; returns the losses of each replica here."""
        return self.step(*data)

    def fetched(self, losses: Sequence[Any]) -> list[float]:
        """Return the losses of a step as they are compared with those of another training."""
        return [float(loss) for replica in losses for loss in replica.numpy().ravel()]

    def wait(self) -> None:
        """Wait until this machine's devices have done the steps that were queued."""
        synchronise(self.devices, copies(self.strategy, self.trained()[-1]))

    def reset(self) -> None:
        """Go back to the initial weights, and to optimisers that have seen nothing."""
        for network, weights, optimizer in zip(self.networks, self.initial, self.optimizers):
            network.set_weights(weights)
            slots = [one for one in variables_of(optimizer) if len(one.shape)]  # not the rate
            for variable in (optimizer.iterations, *slots):
                for copy in copies(self.strategy, variable):
                    copy.assign(copy * 0)

    def trained(self) -> list[Any]:
        """Return the trained weights of all networks."""
        return [weight for network in self.networks for weight in network.trainable_variables]

    def state(self) -> list[Any]:
        """Return what the steps until now have added to each trained weight, float64, to be compared with another's."""
        import numpy as np

        began: dict[int, Any] = {}
        for network, initial in zip(self.networks, self.initial):
            began.update(zip(map(id, network.weights), map(np.float64, initial)))
        return [np.float64(copies(self.strategy, one)[0].numpy()) - began[id(one)] for one in self.trained()]

    def identical(self) -> tuple[int, int]:
        """Return how many trained weights are the same in all replicas bit by bit, and how many there are."""
        import numpy as np

        held = [[one.numpy() for one in copies(self.strategy, weight)] for weight in self.trained()]
        return sum(all(np.array_equal(one, other) for other in others) for one, *others in held), len(held)


def variables_of(optimizer: Any) -> list[Any]:
    """Return what an optimiser keeps, in every Keras."""
    return list(optimizer.variables() if callable(optimizer.variables) else optimizer.variables)


FEW = 16  # images that are compared with float64 on the CPU


class TrainingWorkload(BaseWorkload):
    """What every workload that trains does in the worker: samples, verification, and where things were computed.

    `parameters`: model, batch, and xla where it is compiled.
    """

    kind: type[Training] = Training
    compared = 3  # steps of the verification

    def __init__(self, parameters: dict[str, Any], dtype: str, devices: list[str], spread: str) -> None:
        super().__init__(parameters, dtype, devices, spread)
        self.each: int = parameters["batch"]
        with self.starting("network"):
            self.training = self.make()
            self.training.wait()
        with self.starting("to devices"):
            self.data = self.training.data(self.each)
            self.training.wait()

    def make(self) -> Training:
        """Build the training."""
        return self.over(self.devices, self.dtype, xla=self.parameters.get("xla", False))

    def over(self, devices: list[str], dtype: str, **options: Any) -> Training:
        """Build a training over some devices of this machine."""
        name = self.parameters.get("model", "")
        return self.kind(strategy_over(devices), devices, name, dtype, len(devices), **options)

    def sample(self, steps: int) -> float:
        """Return the seconds of `steps` training steps, from the first call to the end on the last device."""
        started = time.perf_counter()
        self.steps(steps)
        return time.perf_counter() - started

    def steps(self, count: int) -> None:
        """Do some steps, and wait for them once."""
        for _ in range(count):
            self.outputs = self.training.run(*self.data)
        self.training.wait()

    def first_steps(self, training: Training, data: tuple[Any, ...]) -> list[list[float]]:
        """Return the losses of the first steps."""
        return [training.fetched(training.run(*data)) for _ in range(self.compared)]

    def first_steps_of_all(self) -> tuple[list[list[float]], tuple[int, int]]:
        """Train some steps from the initial weights in all replicas.

        Returns the losses of each, and how many weights are the same in all of them, of how many.
        """
        self.training.reset()
        return self.first_steps(self.training, self.data), self.training.identical()

    def verify(self, _request: dict[str, Any]) -> dict[str, Any]:
        """Train some steps from the initial weights, here and in the way that the result is compared with: several
        replicas with one device that computes their batches in turn, one device with float64 on the CPU."""
        losses, identical = self.first_steps_of_all()
        several, compared = len(self.devices) > 1, losses
        each = self.each if several else min(FEW, self.each)
        if each != self.each:
            self.training.reset()
            compared = self.first_steps(self.training, self.training.data(each))
        state = self.training.state()
        device, dtype = (self.devices[0], self.dtype) if several else ("/CPU:0", "float64")
        alone = self.over([device], dtype, shards=len(self.devices))
        expected = self.first_steps(alone, alone.data(each))
        self.verified = True
        return {
            "losses": numbers(sum(step) / len(step) for step in losses),
            "compared": numbers(loss for step in compared for loss in step),
            "expected": numbers(loss for step in expected for loss in step),
            "update": finite(distance(state, alone.state())),
            "replicas": len(self.devices),
            "identical": identical,
        }

    def recheck(self) -> dict[str, Any] | None:
        """Return None while the last losses are numbers, which is all that is known of them."""
        losses = numbers(self.training.fetched(self.outputs))
        return {"block": losses} if self.verified and None in losses else None

    def graph(self) -> Any:
        """Return the compiled step."""
        return self.training.step.get_concrete_function(*self.data).graph

    def misplaced(self) -> str | None:
        """Say what was computed elsewhere than asked for; None when nothing was."""
        here = [short(name) for name in self.training.devices]
        return misplaced(here, on_devices(self.outputs), self.graph(), compiled=self.training.xla)


def distance(found: Sequence[Any], expected: Sequence[Any]) -> float:
    """Return the relative rms distance of arrays, over all of them together."""
    import numpy as np

    apart = sum(float(np.square(one - other).sum()) for one, other in zip(found, expected))
    size = sum(float(np.square(other).sum()) for other in expected)
    return math.sqrt(apart / size) if size else math.nan


def losses_finite(losses: Sequence[float | None]) -> Check:
    """Return the check that all losses are numbers."""
    wrong = sum(loss is None for loss in losses)
    return Check("loss finite", not wrong, f"{wrong} of {len(losses)} are not finite" if wrong else "")


def judge_training(
    answer: dict[str, Any],
    limits: tuple[float, float],
    state: tuple[str, str],
    learns: Callable[[], Check],
    methods: tuple[str, str],
) -> Judgement:
    """Judge what `verify` or `recheck` answered: losses and state as in the other training, and replicas alike.

    Args:
        limits: of the relative difference of a loss, and of the distance of the state.
        state: the name of its check, and what it is, "weights".
        learns: the check that the training does; asked where all losses are finite.
        methods: of one device, and of several.
    """
    if "block" in answer:
        return judged("every loss is finite", [losses_finite(answer["block"])])
    checks = [losses_finite(answer["losses"])]
    if checks[0].ok:
        checks.append(learns())
    several = answer["replicas"] > 1
    found, expected = answer["compared"], answer["expected"]
    unknown = None in (*found, *expected)
    residual = math.nan if unknown else max(abs(one - other) / abs(other) for one, other in zip(found, expected))
    like = "like one device" if several else "like float64"
    checks.append(Check(like, residual <= limits[0], f"losses differ by {residual:.2g} (limit {limits[0]:g})"))
    update = math.nan if answer["update"] is None else answer["update"]
    checks.append(Check(state[0], update <= limits[1], f"{state[1]} differ by {update:.2g} (limit {limits[1]:g})"))
    if several:
        same, of = answer["identical"]
        saw = f"{same} of {of} weights in {answer['replicas']} replicas"
        checks.append(Check("replicas identical", same == of, saw))
    return judged(methods[several], checks, residual=finite(residual), tolerance=limits[0])
