"""What people give as the reason, in their own words: the fixed value `cause` is the id of the finding that it names.

Nothing else in the text need show it, and people err: what these lines name is only the first of the likely causes.
"""

from __future__ import annotations

from tfgpu_doctor.parsers.messages.template import template

TEMPLATES = (
    template(
        "cause-said",
        "cudnn",
        r"\b(?:no|without|lacks?|missing) (?:the |any )?cudnn\d?\b(?! (?:version|found|error|support))",
        role="context",
        cause="cudnn.missing",
    ),
    template(
        "cause-said",
        "no cuda|without cuda|lacks cuda|missing cuda",
        r"\b(?:no|without|lacks?|missing) (?:the |any )?cuda (?:tool ?kit|librar\w+)\b(?! (?:version|found|error))",
        cause="cuda.missing",
    ),
    template(
        "cause-said",
        "avx",
        r"\b(?:no|lacks?|without|(?:not|n['’]t) (?:support|have)) (?:the )?AVX\b",
        cause="tf.import-avx",
    ),
)
