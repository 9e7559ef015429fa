"""Messages with which Python fails to import TensorFlow, or the process dies of it.

Sources: TensorFlow's pywrap_tensorflow.py, self_check.py and cpu_feature_guard.cc; CPython; glibc's and musl's ld.so;
the shells' words for signals in the languages of glibc. What speaks of a package beside TensorFlow stands in
messages_dependencies.py.
"""

from __future__ import annotations

from tfgpu_doctor.parsers.messages import dependencies
from tfgpu_doctor.parsers.messages.template import template

_NEVER_ENDS = (
    r"\bhang(?:s|ing)?\b|\bhung\b|(?<!pip )(?<!pip3 )\bfreez(?:es?|ing)\b|\bfroze\b|\bstuck\b|\bforever\b"
    r"|\bdead ?locks?\b|\bblocks\b"
    r"|\bnever (?:ends|returns|finishes|completes|comes back|terminates)\b"
    r"|\bdoes(?:n't| not) (?:end|return|finish|complete|come back|terminate)\b"
)
# what TensorFlow's wheels require, so that one of them missing means a broken installation
_NEEDED = (
    r"absl|gast|astor|astunparse|termcolor|opt_einsum|flatbuffers|wrapt|h5py|grpc|ml_dtypes|namex|optree|google_pasta"
    r"|pasta|keras_preprocessing|keras_applications|werkzeug"
)
# what bash and zsh print of SIGILL, in the languages of glibc's catalogue that are met most
_ILLEGAL = (
    r"illegal (?:hardware )?instruction|Ungültiger Maschinenbefehl|Instruction (?:non permise|illégale)"
    r"|Instrucción ilegal|Instrução ilegal|Istruzione (?:non consentita|illegale)"
    r"|(?:Недопустимая|Неправильная) инструкция"
    r"|非法指令|不正な命令|잘못된 명령어|Nieprawidłowa instrukcja|Ongeldige instructie|Geçersiz yönerge"
)
# modules of the standard library that TensorFlow and NumPy import in turn, and that people name their files after
_STANDARD = (
    r"abc|argparse|ast|asyncio|base64|bisect|calendar|cmd|code|codecs|collections|contextlib|copy|csv|ctypes"
    r"|dataclasses"
    r"|datetime|decimal|email|enum|functools|glob|gzip|hashlib|heapq|html|http|inspect|io|json|keyword|linecache|locale"
    r"|logging|math|multiprocessing|numbers|operator|os|parser|pathlib|pickle|platform|profile|queue|random|re|resource"
    r"|secrets|select|shutil|signal|site|socket|ssl|stat|statistics|string|struct|subprocess|symbol|sys|tempfile"
    r"|textwrap|threading|time|timeit|token|tokenize|trace|traceback|types|typing|unittest|uuid|warnings"
    r"|weakref|zipfile"
)
# no folder that Python or pip installs into
_OUTSIDE = r"(?![^\"()]{0,300}(?:[/\\]lib(?:64)?[/\\]|(?:site|dist)-packages|python\d|Frameworks|\.zip))"

TEMPLATES = (
    template(
        "tf-module-missing",
        "no module named",
        r"No module named '?tensorflow\.(?:python|core|_api|compat)\b",
    ),
    template(
        "import-hangs",
        "mutex.cc|import",
        r"\[mutex\.cc : \d+\] RAW: Lock blocking|\bimport(?:ing)? (?:of )?tensor ?flow\b.{0,80}?(?:"
        + _NEVER_ENDS
        + r")"
        r"|\btensor ?flow import(?:ing)?\b.{0,40}?(?:" + _NEVER_ENDS + r")"
        r"|(?:" + _NEVER_ENDS + r").{0,60}\b(?:import(?:ing|s|ed)?|import of|loading) (?:the )?"
        r"(?:tensor ?flow|tf|keras)\b|\bnever (?:returns|comes back) from (?:the )?import\b",
    ),
    template(
        "emulated",
        "does not match the detected host platform",
        r"platform \(linux/amd64\) does not match the detected host platform \(linux/arm64",
        role="context",
    ),
    template(
        "module-not-found",
        "no module named",
        r"No module named '?(?P<module>(?:tensorflow|tf_keras|keras|tensorflow_core|tensorflow_estimator|tensorboard"
        r"|_pywrap_tensorflow\w*|numpy|google|google\.protobuf)[\w.]*)'?",
        stops_import=True,
    ),
    template(
        "requirement-missing",
        "no module named",
        r"No module named '?(?P<module>keras|google\.protobuf|" + _NEEDED + r")'?\s*$",
        stops_import=True,
    ),
    template(
        "native-runtime-failed", "failed to load the native tensorflow runtime|failed to import the tensorflow module"
    ),
    template(
        "dll-load-failed",
        "dll load failed|dll) initialization routine failed|not a valid win32 application|could not find module",
        r"DLL load failed(?! with error code -?(?:1073741795|3221225501))(?: while importing (?P<module>\w+))?"
        r"(?:: *(?P<why>.*))?|DLL\) initialization routine failed|not a valid Win32 application"
        r"|Could not find module '[^']{0,200}tensorflow[^']{0,200}\.(?:dll|pyd)'",
        stops_import=True,
    ),
    template(
        "native-traceback",
        "pywrap_tensorflow",
        r"_pywrap_tensorflow_internal = swig_import_helper\(\)"
        r"|from tensorflow\.python\.(?:\w+\.)*_?pywrap_tensorflow\w* import"
        r"|imp\.load_module\('_pywrap_tensorflow",
    ),
    template(
        "msvc-missing",
        "msvcp140|vcruntime140|visual c++|concrt140|api-ms-win-crt",
        r"Could not find (?:the DLL\(s\) )?'(?P<library>(?:msvcp|vcruntime)140(?:_1)?\.dll)"
        r"|(?P<dll>(?:(?:MSVCP|VCRUNTIME|CONCRT)140(?:_\d)?|api-ms-win-crt-[\w-]{1,40})\.dll) "
        r"(?:was not found|is missing|missing|not found)"
        r"|install.{0,40}Visual C\+\+ Redistributable",
    ),
    template(
        "glibc-too-old",
        "not found (required|glibc_|glibc 2.|glibcxx_|cxxabi_|kernel too old|error relocating|"
        "error loading shared library ld-linux|requires glibc",
        r"(?:version +|: *|^\s*)[`'\"\u2018\u201c]?(?P<version>(?:GLIBC|GLIBCXX|CXXABI)[_ ][\d.]+)[`'\"\u2019\u201d]? "
        r"(?:was )?not found"
        r"|FATAL: kernel too old|Error relocating [^:]{0,200}(?:tensorflow|pywrap)[^:]{0,200}: \S+: symbol not found"
        r"|Error loading shared library ld-linux-[\w-]+\.so|\brequires glibc(?: version)?\W{1,4}(?P<need>2\.\d\d)",
        stops_import=True,
    ),
    template(
        "illegal-instruction",
        "illegal instruction|illegal hardware instruction|sigill| 132|=132|code:132|0xc000001d|1073741795|3221225501|"
        "signal 4|signal: 4|invalid opcode|maschinenbefehl|instruction non|instruction ill|instrucci|instru|инструкция|"
        "指令|命令|명령어|instrukcja|instructie|yönerge|returncode=-4|exit code -4",
        _ILLEGAL
        + r"|\bSIGILL\b|(?:exit(?:ed)?(?: with)?(?: code| status)?|non-zero code|(?:status|return) code|exitCode)"
        r"[:=]? ?132\b|0xC000001D|(?:-1073741795|3221225501)\b|signal:? 4\b"
        r"|trap invalid opcode.{0,200}(?:tensorflow|pywrap)|(?:returncode=|exit code )-4\b",
        stops_import=True,
    ),
    template(
        "cpu-instructions-missing",
        "was compiled to use",
        r"library was compiled to use (?P<instructions>[\w., ]{1,200}?) instructions, but these aren't available",
        stops_import=True,
    ),
    template(
        "segmentation-fault", "segmentation fault|sigsegv|access violation|mutex lock failed: invalid argument", None
    ),
    template(
        "undefined-symbol",
        "undefined symbol|symbol not found",
        r"(?:undefined symbol|Symbol not found): *(?!cupti|cudnn|cublas|cuda)(?P<symbol>\S+)",
        stops_import=True,
    ),
    template(
        "wrong-architecture",
        "incompatible architecture|wrong elf class|mach-o",
        r"incompatible architecture.{0,40}|wrong ELF class",
        stops_import=True,
    ),
    # --- something else is imported under this name
    template(
        "shadowed",
        "partially initialized module|is not a package|source directory|cannot import name '|"
        "tensorflow/__init__.py|(unknown location)|from 'tensorflow' (|same "
        "name as the standard library|"
        "same name as the library",
        r"(?:Do not|not try to) import tensorflow from its source directory"
        r"|cannot import name '(?:pywrap_tensorflow|build_info)'"
        r"|File \"(?:[^\"]{0,300}/tensorflow/)?tensorflow/__init__\.py\", line"
        r"|partially initialized module '?tensorflow'? has no attribute|'tensorflow' is not a package"
        r"|cannot import name .{1,60} from partially initialized module 'tensorflow'"
        r"|cannot import name '\w{1,60}' from 'tensorflow' \((?:unknown location|(?![^()]{0,300}(?:site|dist)-packages)"
        r"[^()]{1,300}\.py)\)"
        r"|cannot import name '\w{1,60}' from '(?P<standard>"
        + _STANDARD
        + r")' \((?P<file>"
        + _OUTSIDE
        + r"[^()]{1,300}\.py)\)"
        r"|since it has the same name as (?:the standard library module named|the library you intended to import)"
        r"|partially initialized module '(?:" + _STANDARD + r"|numpy|keras)' has no attribute"
        r"|cannot import name '\w{1,60}' from partially initialized module '(?:" + _STANDARD + r")'",
        stops_import=True,
    ),
    template(
        "traceback",
        "file ",
        r"^\s*File \"(?P<file>" + _OUTSIDE + r""
        r"(?:[^\"]{0,300}[/\\])?(?P<standard>" + _STANDARD + r")\.py)\", line \d+, in <module>",
        role="context",
    ),
    template("own-tensorflow-file", "tensorflow.py", r"File \"(?P<file>(?:[^\"]*[/\\])?tensorflow\.py)\""),
    template(
        "no-attribute",
        "module 'tensorflow",
        r"module 'tensorflow' has no attribute '(?P<name>\w+)'"
        r"|module 'tensorflow(?:_core)?\.(?!python|tools|compat\.v2|_api\.v2\.compat\.v2)(?P<part>[\w.]{1,80})' "
        r"has no attribute '(?P<inner>\w+)'",
        stops_import=True,
    ),
    *dependencies.TEMPLATES,
    # --- endings
    template(
        "exception",
        "error|exception|interrupt",
        r"^\W{0,3}(?P<type>(?:[a-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt"
        r"|Warning))\b(?: \(see above for traceback\))?"
        r"(?:: *(?P<message>.*))?$",
        role="context",
    ),
    template("traceback", "traceback (most recent call last)"),
    template(
        "import-line",
        "import tensorflow|from tensorflow",
        r"^\s*(?:>>> |In \[\d+\]: |File .*)?(?:import tensorflow\b|from tensorflow[\w.]* import\b)",
        role="context",
    ),
    template(
        "aborted",
        "aborted|core dumped|process finished with exit code|fatal python error",
        r"\bAborted\b(?: \(core dumped\))?|core dumped"
        r"|Process finished with exit code (?P<code>-?\d+)|Fatal Python error: (?P<why>.*)",
    ),
)
