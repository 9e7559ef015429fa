"""Messages with which Python fails to import TensorFlow, or the process dies of it.

Sources: TensorFlow's pywrap_tensorflow.py, self_check.py and cpu_feature_guard.cc; CPython; glibc's ld.so; NumPy,
protobuf, Keras and Transformers at their releases.
"""

from __future__ import annotations

from tfgpu_doctor.parsers.messages import form

FORMS = (
    form("tf-module-missing", "no module named", r"No module named '?tensorflow\.(?:python|core|_api|compat)\b"),
    form(
        "import-hangs",
        "mutex.cc|import",
        r"\[mutex\.cc : \d+\] RAW: Lock blocking"
        r"|import(?:ing)? tensorflow\b.{0,80}\b(?:hangs?|freezes?|never (?:ends|returns|finishes)|stuck|forever)\b"
        r"|\b(?:hangs?|stuck|freezes)\b.{0,60}\bimport(?:ing)? tensorflow",
    ),
    form(
        "emulated",
        "does not match the detected host platform",
        r"platform \(linux/amd64\) does not match the detected host platform \(linux/arm64",
    ),
    form(
        "module-not-found",
        "no module named",
        r"No module named '?(?P<module>(?:tensorflow|tf_keras|keras|tensorflow_core|tensorflow_estimator|tensorboard"
        r"|_pywrap_tensorflow\w*|numpy|google|google\.protobuf)[\w.]*)'?",
    ),
    form(
        "native-runtime-failed", "failed to load the native tensorflow runtime|failed to import the tensorflow module"
    ),
    form(
        "dll-load-failed",
        "dll load failed|dll) initialization routine failed|not a valid win32 application",
        r"DLL load failed(?: while importing (?P<module>\w+))?(?:: *(?P<why>.*))?|DLL\) initialization routine failed"
        r"|not a valid Win32 application",
    ),
    form(
        "native-traceback",
        "pywrap_tensorflow",
        r"_pywrap_tensorflow_internal = swig_import_helper\(\)"
        r"|from tensorflow\.python\.(?:\w+\.)*_?pywrap_tensorflow\w* import"
        r"|imp\.load_module\('_pywrap_tensorflow",
    ),
    form("dll-from-cuda", "error loading \"|error loading '", r"Error loading [\"'](?P<library>[^\"']+\.dll)[\"']"),
    form(
        "msvc-missing",
        "msvcp140|vcruntime140|visual c++",
        r"Could not find (?:the DLL\(s\) )?'(?P<library>(?:msvcp|vcruntime)140(?:_1)?\.dll)"
        r"|(?P<dll>(?:MSVCP|VCRUNTIME)140(?:_1)?\.dll) (?:was not found|is missing)"
        r"|install.{0,40}Visual C\+\+ Redistributable",
    ),
    form(
        "glibc-too-old",
        "not found (required|glibc_|glibcxx_|cxxabi_",
        r"version [`'\"]?(?P<version>(?:GLIBC|GLIBCXX|CXXABI)_[\d.]+)'? not found",
    ),
    form(
        "illegal-instruction",
        "illegal instruction|illegal hardware instruction|sigill|code 132|code: 132|0xc000001d|signal 4",
        r"illegal (?:hardware )?instruction|\bSIGILL\b|(?:exit|non-zero) code:? 132\b|0xC000001D|signal 4\b",
    ),
    form(
        "cpu-instructions-missing",
        "was compiled to use",
        r"library was compiled to use (?P<instructions>[\w., ]+?) instructions, but these aren't available",
    ),
    form("segmentation-fault", "segmentation fault|sigsegv|access violation", None),
    form(
        "undefined-symbol",
        "undefined symbol|symbol not found",
        r"(?:undefined symbol|Symbol not found): *(?!cupti|cudnn|cublas|cuda)(?P<symbol>\S+)",
    ),
    form(
        "wrong-architecture",
        "incompatible architecture|wrong elf class|mach-o",
        r"incompatible architecture.{0,40}|wrong ELF class",
    ),
    # --- something else is imported under this name
    form(
        "shadowed",
        "partially initialized module|is not a package|source directory|cannot import name 'pywrap_tensorflow'|"
        "cannot import name 'build_info'",
        r"Do not import tensorflow from its source directory|cannot import name '(?:pywrap_tensorflow|build_info)'"
        r"|partially initialized module '?tensorflow'? has no attribute|'tensorflow' is not a package"
        r"|cannot import name .{1,60} from partially initialized module 'tensorflow'",
    ),
    form("own-tensorflow-file", "tensorflow.py", r"File \"(?P<file>(?:[^\"]*[/\\])?tensorflow\.py)\""),
    form(
        "no-attribute",
        "module 'tensorflow' has no attribute",
        r"module 'tensorflow' has no attribute '(?P<name>\w+)'",
    ),
    # --- NumPy
    form(
        "numpy-abi",
        "compiled using numpy 1.x|_array_api not found|multiarray failed to import|umath failed to import|"
        "numpy.ndarray size changed|numpy.dtype size changed|module compiled against|numpy 2.0 release|"
        "numpy' has no attribute|np.complex_|_multiarray_umath",
        r"compiled using NumPy 1\.x cannot be run in(?:\s*NumPy (?P<numpy>[\d.]+\d))?|_ARRAY_API not found"
        r"|numpy\.core\.(?:multiarray|umath) failed to import|numpy\.(?:ndarray|dtype) size changed"
        r"|module compiled against (?:ABI|API) version \S+ but this version of numpy is \S+"
        r"|was removed in the NumPy 2\.0 release|module 'numpy' has no attribute '(?P<name>\w+)'"
        r"|No module named 'numpy\.core\._multiarray_umath'",
    ),
    # --- protobuf
    form(
        "protobuf-abi",
        "descriptors cannot|google.protobuf|descriptor pool|protobuf gencode|protocol buffer runtime|getprototype|"
        "your generated code is out of date|descriptors should not|'serialized_options'",
        r"Descriptors should not be created directly|Descriptors cannot (?:not )?be created directly"
        r"|cannot import name '(?P<name>builder|runtime_version|"
        r"symbol_database|_message|descriptor"
        r"|enum_type_wrapper)' from '?(?:partially initialized module '?)?google\.protobuf"
        r"|Couldn't build proto file into descriptor pool|incompatible Protobuf Gencode/Runtime"
        r"|requires version (?P<need>[\d.]+) of the Protocol Buffer runtime library"
        r"|compiled against version (?P<built>[\d.]+) of the Protocol Buffer runtime library"
        r"|no attribute 'GetPrototype'|google\.protobuf\.runtime_version\.VersionError"
        r"|your generated code is out of date|No module named 'google\.protobuf(?:\.\w+)*'"
        r"|module 'google\.protobuf\.\w+' has no attribute|unexpected keyword argument 'serialized_options'",
    ),
    # --- Keras 2 and 3, Keras of another release
    form(
        "keras-generation",
        "keras 3|tf_keras|tf-keras|keras.src|legacy keras|keras 2|tf_use_legacy_keras|keras cannot be imported|"
        "only instances of `keras.layer`",
        r"installed version of Keras is Keras 3|Keras 3.{0,60}not (?:yet )?supported|No module named 'tf_keras'"
        r"|requires? (?:TF-)?Keras 2|install the backwards-compatible tf-keras|Keras 3 only supports V3"
        r"|install `?tf[-_]keras`?|do not have the tf_keras package"
        r"|File format not supported.{0,40}Keras 3|module 'keras\.src\.\w+' has no attribute"
        r"|Only instances of `keras\.Layer` can be added|Keras cannot be imported.{0,40}",
    ),
    form(
        "keras-mismatch",
        "keras|tensorflow.compat.v2|dtensor",
        r"module '?tensorflow\.compat\.v2(?:\.\w+)*'? has no attribute '?(?P<name>__internal__|\w+)"
        r"|cannot import name '?dtensor'?|cannot import name '(?P<inner>\w+)' from 'tensorflow\.compat\.v2[\w.]*'"
        r"|cannot import name '(?P<symbol>\w+)' from '(?P<module>(?:tensorflow\.python\.keras"
        r"|tensorflow\.keras|keras)[\w.]*)'"
        r"|cannot import name '?(?P<other>\w+)'? from '?tensorflow\.(?:python|compat)[\w.]*'? .*keras"
        r"|No module named '(?P<missing>(?:keras|tensorflow\.python\.keras|tensorflow\.keras)\.[\w.]+)'"
        r"|module '(?P<inside>tensorflow\.python\.keras[\w.]*)' has no attribute '(?P<absent>\w+)'"
        r"|module '(?P<where>keras[\w.]*)' has no attribute '(?P<attribute>\w+)'",
    ),
    form(
        "estimator-mismatch",
        "tensorflow_estimator|tensorboard|monitoring|metric",
        r"(?:tensorflow_estimator|tensorboard).{0,160}(?:ImportError|AttributeError)"
        r"|(?:ImportError|AttributeError).{0,80}(?:tensorflow_estimator|tensorboard)"
        r"|Monitoring.{0,20}already exists|Cannot register 2 metrics with the same name"
        r"|Another metric with the same name",
    ),
    form(
        "tf-internals-missing",
        "cannot import name",
        r"cannot import name '?(?P<name>\w+)'? from '?(?P<module>tensorflow\.python[\w.]*|tensorflow_core[\w.]*)",
    ),
    # --- endings
    form(
        "exception",
        "error|exception|interrupt",
        r"^\W{0,3}(?P<type>(?:[a-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt"
        r"|Warning))\b(?: \(see above for traceback\))?"
        r"(?:: *(?P<message>.*))?$",
    ),
    form("traceback", "traceback (most recent call last)"),
    form("import-line", "import tensorflow", r"^\s*(?:>>> |In \[\d+\]: |File .*)?import tensorflow\b"),
    form(
        "aborted",
        "aborted|core dumped|process finished with exit code|fatal python error",
        r"\bAborted\b(?: \(core dumped\))?|core dumped"
        r"|Process finished with exit code (?P<code>-?\d+)|Fatal Python error: (?P<why>.*)",
    ),
)
