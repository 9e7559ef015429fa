"""Messages of package managers about TensorFlow and what belongs to it (pip, conda, uv, the index itself)."""

from __future__ import annotations

from tfgpu_doctor.parsers.messages import form

FORMS = (
    form(
        "package-removed",
        "tensorflow-gpu",
        r"\"?tensorflow-gpu\"? package has been removed|No version (?P<version>[\d.]+) of the tensorflow-gpu was found"
        r"|No matching distribution found for tensorflow[-_]gpu(?:==(?P<wanted>[\w.]+))?"
        r"|satisfies the requirement tensorflow[-_]gpu\S*|(?:building|install|prepare metadata|build wheels? for|"
        r"subprocess).{0,60}tensorflow[-_]gpu.{0,40}(?:error|fail)|python_requires_error.{0,80}tensorflow-gpu",
    ),
    form(
        "no-distribution",
        "could not find a version|no matching distribution",
        r"satisfies the requirement (?P<requirement>(?:tensorflow|tf[-_]nightly)[\w-]*(?:\[[\w,-]*\])?[^( ]*)"
        r"(?:.*?\(from versions: *(?P<versions>[^)]*)\)?)?"
        r"|No matching distribution found for (?P<wanted>(?:tensorflow|tf[-_]nightly)[\w-]*(?:\[[\w,-]*\])?\S*)",
    ),
    form(
        "wheel-not-supported",
        "is not a supported wheel on this platform",
        r"(?P<wheel>[\w.+-]+\.whl)['\"]? is not a supported wheel",
    ),
    form(
        "requires-python",
        "requires-python|require a different python|requires a different python|no wheels with a matching python",
        r"Requires-Python *(?P<need>[<>=!\d., *]+)|requires? a different Python|no wheels with a matching Python",
    ),
    form(
        "no-such-extra",
        "does not provide the extra",
        r"(?P<package>tensorflow\S*) (?P<version>\d[\w.]*) does not provide the extra",
    ),
    form(
        "requirement-conflict",
        "which is incompatible|but you have|but you'll have",
        r"(?P<package>tensorflow[\w-]*|keras|tf[-_]keras|tensorboard)(?: (?P<version>\d[\w.]*))? (?:requires|has requirement) "
        r"(?P<need>[\w.-]+[^,;]*?(?:,[<>=!~][^,;]*)*),? but you(?:'ll)? have (?P<other>[\w.-]+) (?P<has>\d[\w.]*)",
    ),
    form("externally-managed", "externally-managed-environment"),
    form(
        "conda-unsatisfiable",
        "unsatisfiableerror|packagesnotfounderror|nothing provides|unsatisfiable|resolvepackagenotfound",
        r"UnsatisfiableError|LibMambaUnsatisfiableError|ResolvePackageNotFound|PackagesNotFoundError|nothing provides (?P<what>\S+)",
    ),
)
