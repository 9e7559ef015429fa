"""SavedModels: a network of models.py written as one, and what the signature of a user's takes and gives."""

from __future__ import annotations

from typing import Any

from .models import MODELS, build


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
