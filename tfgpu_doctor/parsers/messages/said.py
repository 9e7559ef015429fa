"""What people give as the reason, in their own words: the fixed value `cause` is the id of the finding that it names.

Nothing else in the text need show it, and people err: what these lines name is only the first of the likely causes.
"""

from __future__ import annotations

from tfgpu_doctor.parsers.messages.template import Template, template

_CARD = r"(?:graphics? cards?|cards?|gpus?|[gr]tx ?\d{3,4}(?: ?ti)?)"
# "Protobuf update breaks TF", "downgrade protobuf", "incompatible with numpy 2"
_BREAKS = (
    r"\b{0}\b[^.;\n]{{0,40}}?\b(?:breaks?|broke|broken|incompatib\w+|too new)\b"
    r"|\b(?:incompatib\w+|conflicts?) with {0}\b|\b(?:downgrad\w+|pin(?:ned|ning)?)(?: to)? {0}\b"
)


def _said(cause: str, needles: str, pattern: str) -> Template:
    return template("cause-said", needles, pattern, cause=cause)


TEMPLATES = (
    template(
        "cause-said",
        "cudnn",
        r"\b(?:no|without|lacks?|missing) (?:the |any )?cudnn\d?\b(?! (?:version|found|error|support))",
        role="context",
        cause="cudnn.missing",
    ),
    _said(
        "cuda.missing",
        "no cuda|without cuda|lacks cuda|missing cuda",
        r"\b(?:no|without|lacks?|missing) (?:the |any )?cuda (?:tool ?kit|librar\w+)\b(?! (?:version|found|error))",
    ),
    _said(
        "tf.windows-native",
        "native windows|windows native",
        r"\b(?:not|n['’]t|no longer|only)\b[^.;\n]{0,20}? support\w*[^.;\n]{0,20}? native windows"
        r"|\b(?:native windows|windows native)\b[^;\n]{0,60}?\b(?:not supported|no longer|dropped|only up ?to)\b",
    ),
    _said("tf.import-avx", "avx", r"\b(?:no|lacks?|without|(?:not|n['’]t) (?:support|have)) (?:the )?AVX\b"),
    _said("gpu.arch-too-old", "too old", rf"\b{_CARD} (?:is|are|was|seems?) (?:\w+ )?too old\b"),
    _said("gpu.arch-too-new", "too new", rf"\b{_CARD} (?:is|are|was|seems?) (?:\w+ )?too new\b"),
    _said("driver.too-old", "driver", r"\bdrivers? (?:is|are|was|were|seems?) (?:\w+ )?(?:too old|outdated)\b"),
    _said("tf.abi-protobuf", "protobuf", _BREAKS.format("protobuf")),
    _said("tf.abi-numpy", "numpy", _BREAKS.format("numpy")),
)
