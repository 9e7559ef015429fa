"""Which Keras a message asks for."""

from __future__ import annotations

import re

from tfgpu_doctor.records.facts import Message

# what TensorFlow itself, not the user's code, asks of the Keras beside it
_USED_BY_TENSORFLOW = re.compile(
    r"keras\.(?:api\._v2|_tf_keras)(?:$|\.)|(?:_tf_keras|populate_dict_with_module_objects|__version__)$"
)


def asks_for_other_keras(message: Message) -> bool:
    """Whether code for Keras 2 runs with Keras 3 or the reverse: it asks for a module or name that has moved."""
    values = message.values
    if any(_USED_BY_TENSORFLOW.match(value) for value in values.values()):
        return False
    asked = values.get("missing") or values.get("where") or values.get("module") or ""
    return asked.startswith(("keras", "tensorflow.keras"))
