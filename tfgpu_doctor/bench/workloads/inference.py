"""Calls of a SavedModel as a server makes them: inputs on the host, results fetched, one call after the other.

The model is one of models.py, exported for the purpose, or the user's own; its signature says what it takes. A sample
is one call: the inputs go to the device, the signature runs, all outputs come back as NumPy arrays. Several devices
hold a replica each, get a share of the batch, and are called by a thread each, as a server would.
Work: items (the batch). FLOP: 2 for each multiply-add of the forward pass, where the model is one of ours.

Verified: outputs for the same inputs, computed on the CPU by a process of its own: in float64 for models of ours, in
float32 for a user's; every later call must give the same bit by bit, or be right itself.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any

from .models import MODELS, batch, build
from .training import BaseWorkload, Check, Judgement, finite, judged, lenient, on_devices, short

UNIT = "items/s"
SEED = 7
DISTINCT = 16  # images for a network of ours, repeated in larger batches, so that the reference takes little
SMALL = 2  # integers that are made up are below it: an index into any table
# Relative rms distance of float outputs from float64. Measured with TensorFlow 2.21 on a CPU, our three models, batches
# of 1 to 32, with and without XLA: float32 2.5e-7 to 8.3e-7, float16 4.8e-4 to 1.3e-3, bfloat16 1.8e-3 to 6e-3. tf32
# rounds as float16 does.
TOLERANCE = {"float32": 1e-5, "tf32": 1e-2, "mixed_float16": 1e-2, "mixed_bfloat16": 5e-2}
UNKNOWN_MODEL = 10  # times that for a user's, which may be deeper, and whose reference is rounded itself
# Share of integer, boolean and string outputs (classes, say) that may differ: rounding decides where two are close.
MAY_DIFFER = {"float32": 0.01, "tf32": 0.05, "mixed_float16": 0.05, "mixed_bfloat16": 0.1}
METHOD = "outputs against those of the CPU in {}; those of further calls are the same bit by bit, or were compared so"


def judge(answer: dict[str, Any], dtype: str, parameters: dict[str, Any]) -> Judgement:
    """Say whether the outputs are finite, and as near to the reference as the type allows."""
    other, residual = parameters["reference"], answer["residual"]
    if answer["unlike"]:
        return Judgement(False, METHOD.format(other), why=answer["unlike"])
    slack = UNKNOWN_MODEL if other == "float32" else 1.0
    limit = TOLERANCE[dtype] * slack
    apart, checks = math.nan if residual is None else residual, []
    if answer["floats"]:
        checks.append(Check("finite outputs", answer["finite"], "some are infinite or NaN" * (not answer["finite"])))
        checks.append(Check(f"outputs as on the CPU in {other}", apart <= limit, f"{apart:.2g} relative difference"))
    if answer["others"]:
        right = answer["differing"] <= MAY_DIFFER[dtype] * answer["others"]
        saw = f"{answer['differing']} of {answer['others']} differ"
        checks.append(Check("whole numbers as on the CPU", right, saw))
    return judged(
        METHOD.format(other),
        checks,
        residual=residual,
        tolerance=limit if answer["floats"] else None,
        computed_in="float32" if dtype == "tf32" and apart <= TOLERANCE["float32"] * slack else dtype,
    )


def make_inputs(specs: list[dict[str, Any]], count: int) -> dict[str, Any]:
    """Make NumPy arrays for the inputs of a batch of `count`; the same every time.

    Args:
        specs: {"name", "dtype", "shape"} with `shape` of one item, and "model" where a network of ours takes them.
    """
    import numpy as np
    import tensorflow as tf

    made: dict[str, Any] = {}
    for index, spec in enumerate(specs):
        if spec.get("model"):
            made[spec["name"]] = _repeated(batch(spec["model"], DISTINCT, SEED)[0], count)
            continue
        rng = np.random.default_rng([SEED, count, index])
        shape = (count, *spec["shape"]) if spec["batched"] else tuple(spec["shape"])
        kind = spec["dtype"]
        if kind == "bool" or "int" in kind:
            made[spec["name"]] = rng.integers(0, SMALL, shape).astype(kind)
        else:
            made[spec["name"]] = rng.random(shape, dtype=np.float32).astype(getattr(tf, kind).as_numpy_dtype)
    return made


def _repeated(items: Any, count: int) -> Any:
    """Return the first `count` of the items, from the front again where there are fewer."""
    import numpy as np

    return np.ascontiguousarray(np.resize(items, (count, *items.shape[1:])))


class Replica:
    """A function from NumPy inputs to NumPy outputs, by name; its variables live on a device."""

    def __init__(self, folder: str, signature: str, device: str, xla: bool) -> None:
        import tensorflow as tf

        self.device = device
        with lenient(), tf.device(device):  # reading files is the host's business; `misplaced` sees the rest
            self.model = tf.saved_model.load(folder)
            self.function = self.model.signatures[signature]
        named = tf.function(lambda **values: self.function(**values), jit_compile=True)
        self.compiled = named if xla else self.function

    def __call__(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """Copy inputs to the device, call the signature, copy the outputs back."""
        import tensorflow as tf

        with tf.device(self.device):
            self.outputs = self.compiled(**{name: tf.constant(value) for name, value in inputs.items()})
        return {name: value.numpy() for name, value in self.outputs.items()}

    def where(self) -> list[str]:
        """Return the devices of its float outputs; where it has none, those of its variables, or of all outputs."""
        outputs = list(self.outputs.values())
        return on_devices(one for one in outputs if one.dtype.is_floating) or self.weights() or on_devices(outputs)

    def weights(self) -> list[str]:
        """Return the devices of its float variables; tables and counters may lie where they can."""
        return list(dict.fromkeys(short(one.device) for one in self.function.variables if one.dtype.is_floating))


replica = lru_cache(maxsize=64)(Replica)  # a process keeps a model


class Workload(BaseWorkload):
    """The model on each device of a case, and a batch of inputs on the host; `outputs` are those of each replica."""

    def __init__(self, parameters: dict[str, Any], dtype: str, devices: list[str], spread: str) -> None:
        import numpy as np

        super().__init__(parameters, dtype, devices, spread)
        count, model = parameters["batch"], (parameters["folder"], parameters["signature"])
        with self.starting("load"):
            self.calls = [replica(*model, device, parameters["xla"]) for device in devices]
        with self.starting("inputs"):
            inputs = make_inputs(parameters["inputs"], count)
        ends = [count * (place + 1) // len(devices) for place in range(len(devices))]
        batched = {spec["name"] for spec in parameters["inputs"] if spec["batched"]}
        self.parts = [
            {
                name: np.ascontiguousarray(value[first:last]) if name in batched else value
                for name, value in inputs.items()
            }
            for first, last in zip([0, *ends], ends)
        ]
        self.pool = ThreadPoolExecutor(len(devices))
        self.trusted: list[dict[str, Any]] = []
        self.expected: dict[str, Any] = {}

    def sample(self, _steps: int) -> float:
        """Return the seconds of one call of every replica, from inputs on the host to outputs there; `steps` is 1."""
        started = time.perf_counter()
        if len(self.calls) == 1:
            self.outputs = [self.calls[0](self.parts[0])]
        else:
            self.outputs = list(self.pool.map(lambda call, part: call(part), self.calls, self.parts))
        return time.perf_counter() - started

    def verify(self, request: dict[str, Any]) -> dict[str, Any]:
        """Compare the last outputs with the file that `answers` wrote; later outputs must equal these."""
        import numpy as np

        begin = f"{self.parameters['batch']}/"
        with np.load(request["file"]) as saved:
            self.expected = {name[len(begin) :]: saved[name] for name in saved.files if name.startswith(begin)}
        self.trusted, self.verified = self.outputs, True
        return self.compare()

    def unchanged(self) -> bool:
        import numpy as np

        return all(
            one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)
            for one, other in zip(self.outputs, self.trusted)
        )

    def compare(self) -> dict[str, Any]:
        """Compare the outputs of all replicas, one behind the other."""
        import numpy as np

        found = self.outputs[0]
        if len(self.outputs) > 1:
            found = {name: np.concatenate([one[name] for one in self.outputs]) for name in found}
        return compare(found, self.expected)

    def placed_on(self) -> list[str]:
        """Return the devices of each replica's outputs."""
        return [device for call in self.calls for device in dict.fromkeys(call.where())]

    def misplaced(self) -> str | None:
        for device, call in zip(self.devices, self.calls):
            for what, places in (("outputs", call.where()), ("weights", call.weights())):
                if set(places) - {device}:
                    return f"{what} on {', '.join(places)} instead of {device}"
        return None


def compare(found: dict[str, Any], expected: dict[str, Any]) -> dict[str, Any]:
    """Return how far outputs are from the right ones: the worst relative rms of floats, how many others differ."""
    import numpy as np

    answer: dict[str, Any] = {"unlike": "", "floats": 0, "finite": True, "residual": None, "others": 0, "differing": 0}
    if {name: value.shape for name, value in found.items()} != {name: one.shape for name, one in expected.items()}:
        return {**answer, "unlike": "the outputs have different names or shapes than on the CPU"}
    distances = []
    for name, right in expected.items():
        value = found[name]
        if value.dtype.kind in "biuSUO":
            answer["others"] += right.size
            answer["differing"] += int((value != right).sum())
            continue
        wide, exact = value.astype(np.float64), right.astype(np.float64)
        answer["finite"] = answer["finite"] and bool(np.isfinite(wide).all())
        size = float(np.sqrt(np.square(exact).mean())) if right.size else 0.0
        apart = float(np.sqrt(np.square(wide - exact).mean())) if right.size else 0.0
        distances.append(apart / size if size else apart)
    residual = finite(float(np.max(distances))) if distances else None  # which hands on not-a-number
    return {**answer, "floats": len(distances), "residual": residual}


# ---------------------------------------------------------------------------------------------------------------------
# SavedModels: a network of models.py written as one, and what the signature of a user's takes and gives.


def reference(task: str, **arguments: Any) -> dict[str, Any]:
    """Do what has to be done once: "export" a model, "describe" a SavedModel, compute the right "answers"."""
    import tensorflow as tf

    tf.config.set_visible_devices([], "GPU")  # this process measures nothing, and must not hold a GPU's memory
    tasks: dict[str, Callable[..., dict[str, Any]]] = {"export": export, "describe": describe, "answers": answers}
    return tasks[task](**arguments)


def answers(parameters: dict[str, Any], batches: list[int], file: str) -> dict[str, Any]:
    """Write the outputs of a SavedModel on the CPU for the inputs of each batch to `file` (.npz): "8/logits"."""
    import numpy as np

    call, specs = Replica(parameters["folder"], parameters["signature"], "/CPU:0", False), parameters["inputs"]
    ours = bool(specs and specs[0].get("model"))
    known = call(make_inputs(specs, DISTINCT)) if ours else {}
    found = {}
    for count in batches:  # no item depends on another
        outputs = {name: _repeated(value, count) for name, value in known.items()} or call(make_inputs(specs, count))
        found.update({f"{count}/{name}": value for name, value in outputs.items()})
    np.savez(file, **found)
    return {}


def export(model: str, dtype: str, folder: str) -> dict[str, Any]:
    """Write a SavedModel of one of our networks: signature serving_default, images in, logits out, any batch."""
    import tensorflow as tf

    network = build(model, dtype)
    module = tf.Module()
    module.network = network
    spec = tf.TensorSpec([None, *MODELS[model].image], tf.float32, name="images")

    def serve(images: Any) -> dict[str, Any]:
        return {"logits": network(images, training=False)}

    signature = tf.function(serve, input_signature=[spec], autograph=False)
    tf.saved_model.save(module, folder, signatures={"serving_default": signature})
    return {}


def describe(folder: str, signature: str | None) -> dict[str, Any]:
    """What a SavedModel's signature takes and gives; `signature` None: the only one, or serving_default.

    Returns:
        name, and inputs as {"name", "shape" (None where any), "dtype"}; or "unusable", a sentence.
    """
    import tensorflow as tf

    loaded = tf.saved_model.load(folder)
    names = sorted(getattr(loaded, "signatures", {}))
    wanted = signature or (names[0] if len(names) == 1 else "serving_default")
    if wanted not in names:
        return {"unusable": f"there is no signature {wanted}: it has {', '.join(names) or 'none'}"}
    inputs = loaded.signatures[wanted].structured_input_signature[1]
    shapes = {name: None if spec.shape.rank is None else spec.shape.as_list() for name, spec in inputs.items()}
    specs = [{"name": name, "shape": shapes[name], "dtype": inputs[name].dtype.name} for name in sorted(inputs)]
    return {"name": wanted, "inputs": specs}
