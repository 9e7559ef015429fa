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
from pathlib import Path
from typing import Any

from .judgement import Check, Judgement, judged, nan_last, short
from .models import MODELS, batch, build

UNIT = "items/s"
DTYPES = ("float32", "tf32", "mixed_float16", "mixed_bfloat16")
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

_loaded: dict[tuple[Any, ...], Any] = {}  # signatures by what they were loaded for: a process keeps its model


def judge(answer: dict[str, Any], dtype: str, parameters: dict[str, Any]) -> Judgement:
    """Say whether the outputs are finite, and as near to the reference as the type allows."""
    if answer["unlike"]:
        return Judgement(False, METHOD.format(parameters["reference"]), why=answer["unlike"])
    residual, limit, other = answer["residual"], _limit(dtype, parameters), parameters["reference"]
    checks = []
    if answer["floats"]:
        saw = "" if answer["finite"] else "some are infinite or NaN"
        checks.append(Check("finite outputs", answer["finite"], saw))
        near = residual is not None and residual <= limit
        saw = "" if near else "NaN" if residual is None else f"{residual:.2g} relative difference"
        checks.append(Check(f"outputs as on the CPU in {other}", near, saw))
    if answer["others"]:
        share = answer["differing"] / answer["others"]
        saw = f"{answer['differing']} of {answer['others']} differ"
        checks.append(Check("whole numbers as on the CPU", share <= MAY_DIFFER[dtype], saw))
    return judged(
        METHOD.format(other),
        checks,
        residual=residual,
        tolerance=limit if answer["floats"] else None,
        computed_in="float32" if dtype == "tf32" and _plain(residual, parameters) else dtype,
    )


def _limit(dtype: str, parameters: dict[str, Any]) -> float:
    return TOLERANCE[dtype] * (UNKNOWN_MODEL if parameters["reference"] == "float32" else 1.0)


def _plain(residual: float | None, parameters: dict[str, Any]) -> bool:
    """Whether TF32 was asked for, and the outputs are as near as only float32 makes them."""
    return residual is not None and residual <= _limit("float32", parameters)


# ------------------------------------------------------------------ what is prepared before, by a process of its own


def reference(task: str, **arguments: Any) -> dict[str, Any]:
    """Do what has to be done once: "export" a model, "describe" a SavedModel, compute the right "answers"."""
    import tensorflow as tf

    tf.config.set_visible_devices([], "GPU")  # this process measures nothing, and must not hold a GPU's memory
    tasks: dict[str, Callable[..., dict[str, Any]]] = {"export": export, "describe": describe, "answers": answers}
    return tasks[task](**arguments)


def answers(parameters: dict[str, Any], batches: list[int], file: str) -> dict[str, Any]:
    """Outputs of a SavedModel on the CPU for the inputs of each batch, to `file` (.npz): "8/logits"."""
    import numpy as np

    call = signature_on(parameters, "/CPU:0", xla=False)
    found = {}
    ours = parameters["inputs"][0].get("model")
    known = call(make_inputs(parameters["inputs"], DISTINCT)) if ours else {}
    for count in batches:
        if ours:  # items do not depend on each other
            outputs = {name: _repeated(value, count) for name, value in known.items()}
        else:
            outputs = call(make_inputs(parameters["inputs"], count))
        found.update({f"{count}/{name}": value for name, value in outputs.items()})
    with Path(file).open("wb") as stream:
        np.savez(stream, **found)
    return {}


# --------------------------------------------------------------------------------------- inputs, calls, comparisons


def make_inputs(specs: list[dict[str, Any]], count: int) -> dict[str, Any]:
    """NumPy arrays for the inputs of a batch of `count`; the same every time.

    Args:
        specs: {"name", "dtype", "shape"} with `shape` of one item, and "model" where a network of ours takes them.
    """
    import numpy as np

    made: dict[str, Any] = {}
    for index, spec in enumerate(specs):
        if spec.get("model"):
            made[spec["name"]] = _repeated(batch(spec["model"], DISTINCT, SEED)[0], count)
            continue
        rng = np.random.default_rng([SEED, count, index])
        shape = (count, *spec["shape"]) if spec["batched"] else tuple(spec["shape"])
        kind = spec["dtype"]
        if kind == "bool":
            made[spec["name"]] = rng.integers(0, 2, shape).astype(bool)
        elif "int" in kind:
            made[spec["name"]] = rng.integers(0, SMALL, shape).astype(kind)
        else:
            made[spec["name"]] = rng.random(shape, dtype=np.float32).astype(_numpy_type(kind))
    return made


def _repeated(items: Any, count: int) -> Any:
    """The first `count` of the items, from the front again where there are fewer."""
    import numpy as np

    return np.ascontiguousarray(np.resize(items, (count, *items.shape[1:])))


def _numpy_type(kind: str) -> Any:
    import tensorflow as tf

    return getattr(tf, kind).as_numpy_dtype


def signature_on(parameters: dict[str, Any], device: str, xla: bool) -> Any:
    """A function from NumPy inputs to NumPy outputs, by name; its variables live on `device`. Loaded once a process."""
    import tensorflow as tf

    key = (parameters["folder"], parameters["signature"], device, xla)
    if key not in _loaded:
        soft = tf.config.get_soft_device_placement()
        tf.config.set_soft_device_placement(True)  # reading files is the host's business; `misplaced` sees the rest
        try:
            with tf.device(device):
                model = tf.saved_model.load(parameters["folder"])
                function = model.signatures[parameters["signature"]]
        finally:
            tf.config.set_soft_device_placement(soft)
        compiled = tf.function(lambda **values: function(**values), jit_compile=True) if xla else function
        _loaded[key] = _Call(device, model, function, compiled)
    return _loaded[key]


class _Call:
    """One replica of the model."""

    def __init__(self, device: str, model: Any, function: Any, compiled: Any) -> None:
        self.device, self.model, self.function, self.compiled = device, model, function, compiled
        self.placed_on = device

    def __call__(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """Inputs to the device, the signature, outputs back."""
        import tensorflow as tf

        with tf.device(self.device):
            outputs = self.compiled(**{name: tf.constant(value) for name, value in inputs.items()})
        self.outputs = outputs
        return {name: value.numpy() for name, value in outputs.items()}

    def where(self) -> list[str]:
        """The devices that its float outputs lie on; where it has none, those of its variables, or of all outputs."""
        outputs = list(self.outputs.values())
        tensors = [one for one in outputs if one.dtype.is_floating]
        if tensors:
            return [short(one.backing_device) for one in tensors]
        return self.weights() or [short(one.backing_device) for one in outputs]

    def weights(self) -> list[str]:
        """The devices of its float variables; tables and counters may lie where they can."""
        return list(dict.fromkeys(short(one.device) for one in self.function.variables if one.dtype.is_floating))


class Workload:
    """The model on each device of a case, and a batch of inputs on the host."""

    def __init__(self, parameters: dict[str, Any], _dtype: str, devices: list[str], _spread: str) -> None:
        """Load the model where this process has not yet; nothing is computed."""
        import numpy as np

        self.parameters, self.devices, self.count = parameters, devices, parameters["batch"]
        started = time.perf_counter()
        self.calls = [signature_on(parameters, device, parameters["xla"]) for device in devices]
        self.cold = {"load": time.perf_counter() - started}
        started = time.perf_counter()
        inputs = make_inputs(parameters["inputs"], self.count)
        self.cold["inputs"] = time.perf_counter() - started
        ends = [self.count * (place + 1) // len(devices) for place in range(len(devices))]
        batched = {spec["name"] for spec in parameters["inputs"] if spec["batched"]}
        self.parts = [
            {
                name: np.ascontiguousarray(value[first:last]) if name in batched else value
                for name, value in inputs.items()
            }
            for first, last in zip([0, *ends], ends)
        ]
        self.pool = _pool(len(devices)) if len(devices) > 1 else None
        self.results: list[dict[str, Any]] = []
        self.trusted: list[dict[str, Any]] | None = None
        self.expected: dict[str, Any] = {}

    def sample(self, _steps: int) -> float:
        """Seconds of one call of every replica, from the inputs on the host to the outputs there; `steps` is 1."""
        started = time.perf_counter()
        if self.pool is None:
            self.results = [self.calls[0](self.parts[0])]
        else:
            self.results = list(self.pool.map(lambda pair: pair[0](pair[1]), zip(self.calls, self.parts)))
        return time.perf_counter() - started

    def verify(self, request: dict[str, Any]) -> dict[str, Any]:
        """Compare the last outputs with the file that `answers` wrote; later outputs must equal these."""
        import numpy as np

        with np.load(request["file"]) as saved:
            prefix = f"{self.count}/"
            self.expected = {name[len(prefix) :]: saved[name] for name in saved.files if name.startswith(prefix)}
        self.trusted = self.results
        return compare(self.joined(), self.expected)

    def recheck(self) -> dict[str, Any] | None:
        """None when the last outputs are the verified ones bit by bit, or nothing was verified yet."""
        import numpy as np

        if self.trusted is None:
            return None
        same = all(
            one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)
            for one, other in zip(self.results, self.trusted)
        )
        return None if same else compare(self.joined(), self.expected)

    def joined(self) -> dict[str, Any]:
        """The outputs of all replicas, one behind the other."""
        import numpy as np

        if len(self.results) == 1:
            return self.results[0]
        return {name: np.concatenate([one[name] for one in self.results]) for name in self.results[0]}

    def placed_on(self) -> list[str]:
        """The devices of each replica's outputs."""
        return [device for call in self.calls for device in dict.fromkeys(call.where())]

    def misplaced(self) -> str | None:
        """What was computed elsewhere than asked for; None when nothing was."""
        for device, call in zip(self.devices, self.calls):
            for found in call.where():
                if found != device:
                    return f"outputs on {found} instead of {device}"
            for found in call.weights():
                if found != device:
                    return f"weights on {found} instead of {device}"
        return None


def _pool(threads: int) -> Any:
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(threads)


def compare(found: dict[str, Any], expected: dict[str, Any]) -> dict[str, Any]:
    """How far outputs are from what they should be: the worst relative rms of floats, and how many others differ."""
    import numpy as np

    answer: dict[str, Any] = {"unlike": "", "floats": 0, "finite": True, "residual": None, "others": 0, "differing": 0}
    if {name: value.shape for name, value in found.items()} != {name: one.shape for name, one in expected.items()}:
        return {**answer, "unlike": "the outputs have different names or shapes than on the CPU"}
    worst = 0.0
    for name, right in expected.items():
        value = found[name]
        if value.dtype.kind in "biuSUO":
            answer["others"] += right.size
            answer["differing"] += int((value != right).sum())
            continue
        answer["floats"] += 1
        wide, exact = value.astype(np.float64), right.astype(np.float64)
        answer["finite"] = answer["finite"] and bool(np.isfinite(wide).all())
        size = float(np.sqrt(np.square(exact).mean())) if right.size else 0.0
        apart = float(np.sqrt(np.square(wide - exact).mean())) if right.size else 0.0
        worst = max(worst, apart / size if size else apart, key=nan_last)
    answer["residual"] = worst if answer["floats"] and worst < math.inf else None
    return answer


# ---------------------------------------------------------------------------------------------------------------------
# SavedModels: a network of models.py written as one, and what the signature of a user's takes and gives.


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
        name, names (of all signatures), and inputs and outputs as {"name", "shape" (None where any), "dtype"}; or
        "unusable", a sentence.
    """
    import tensorflow as tf

    loaded = tf.saved_model.load(folder)
    names = sorted(getattr(loaded, "signatures", {}))
    wanted = signature or ("serving_default" if "serving_default" in names or len(names) != 1 else names[0])
    if wanted not in names:
        has = f"it has {', '.join(names)}" if names else "it has none (tf.saved_model.save(…, signatures=…) makes them)"
        return {"unusable": f"there is no signature {wanted}: {has}"}
    function = loaded.signatures[wanted]
    inputs = function.structured_input_signature[1]
    outputs = function.structured_outputs
    return {
        "name": wanted,
        "names": names,
        "inputs": [_spec(name, spec) for name, spec in sorted(inputs.items())],
        "outputs": [_spec(name, spec) for name, spec in sorted(outputs.items())],
    }


def _spec(name: str, spec: Any) -> dict[str, Any]:
    shape = None if spec.shape.rank is None else spec.shape.as_list()
    return {"name": name, "shape": shape, "dtype": spec.dtype.name}
