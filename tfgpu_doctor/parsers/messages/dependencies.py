"""Messages with which a package beside TensorFlow does not fit it: NumPy, protobuf, Keras, and what builds on them.

Sources: NumPy's __init__.py, _core/src and numpy/__init__.pxd; protobuf's descriptor.py, descriptor.cc, common.cc and
runtime_version.py; Keras 2.4 and 3 (sequential.py, keras_tensor.py, saving); TensorFlow Probability's check of
the version beside it, at their releases.
"""

from __future__ import annotations

from tfgpu_doctor.parsers.messages.template import template

# packages with native code that is compiled for one release of TensorFlow
_NATIVE = (
    r"tensorflow_(?:text|io|addons|decision_forests|recommenders_addons|ranking|data_validation|transform|compression"
    r"|graphics|lattice|quantum|model_optimization)|horovod|tfx_bsl|struct2tensor|tf_sentencepiece|larq_compute_engine"
    r"|waymo_open_dataset|tensorflow_metal|tensorflow-plugins|reverb"
)
_BESIDE = (
    r"tensorboard|tensorflow_(?:hub|estimator|probability|text|addons|datasets|io|transform"
    r"|model_optimization|serving)|keras"
    r"|tf_keras|tf_slim|tensorflowjs|keras_(?:tuner|nlp|cv|applications|preprocessing|contrib)|kerastuner|tf2onnx"
)
# whose objects a model of the other Keras refuses
_OF_THE_OTHER_KERAS = (
    r"tf_keras|tensorflow_hub|keras_nlp|keras_cv|transformers|keras\.engine|keras\.layers|keras\.optimizers"
    r"|keras\.src|tensorflow\.python\.keras"
)

TEMPLATES = (
    # --- NumPy
    template(
        "numpy-abi",
        "compiled using numpy 1.x|_array_api not found|multiarray failed to import|umath failed to import|"
        " size changed|module compiled against|numpy 2.0 release|numpy' has no attribute|np.complex_|"
        "_multiarray_umath|numpy._core|unable to convert function return value|c-extensions failed|"
        "module 'numpy.|pybfloat16_type",
        r"compiled using NumPy 1\.x cannot be run in(?:\s*NumPy (?P<numpy>[\d.]+\d))?|_ARRAY_API not found"
        r"|numpy\.core\.(?:multiarray|umath|_multiarray_umath) failed to import"
        r"|PyBfloat16_Type\.tp_base != nullptr|(?<!Warning: )numpy\.\w{1,20} size changed"
        r"|module compiled against (?:ABI|API) version \S+ but this version of numpy is \S+"
        r"|was removed in the NumPy 2\.0 release|module 'numpy(?:\.(?:core|random|lib)[\w.]*)?' has no attribute "
        r"'(?P<name>\w+)'|No module named '?numpy\._core\b"
        r"|No module named '?numpy\.core\._multiarray_umath\b"
        r"|Unable to convert function return value to a Python type! The signature was\s*\(\) -> handle"
        r"|Importing the (?:numpy|multiarray).{0,20}C-extensions failed",
        stops_import=True,
    ),
    # np.prod and others take a symbolic tensor for an array from NumPy 1.20 on; TensorFlow stops that from 2.6 on
    template(
        "symbolic-to-numpy",
        "cannot convert a symbolic",
        r"Cannot convert a symbolic (?:tf\.)?Tensor \((?P<tensor>[^()]{0,120}strided_slice[^()]{0,40})\) to a numpy",
        stops_import=True,
    ),
    # --- protobuf
    template(
        "protobuf-abi",
        "descriptors cannot|google.protobuf|descriptor pool|protobuf gencode|protocol buffer runtime|getprototype|"
        "your generated code is out of date|descriptors should not|6google8protobuf|already exists in database|"
        "generateddatabase|generated_database|expected bytes, descriptor found|"
        "'message_types_by_name'|bases must be types|'serialized_options'|'create_key'|"
        "no module named google|no module named 'google'|fielddescriptor' object|google._upb|messagefactory|"
        "attribute 'default'",
        r"Descriptors should not be created directly|Descriptors cannot (?:not )?be created directly"
        r"|cannot import name '?(?P<name>\w{1,40})'? from '?(?:partially initialized module '?)?google\.protobuf"
        r"|Couldn't build proto file into descriptor pool|incompatible Protobuf Gencode/Runtime"
        r"|requires version (?P<need>[\d.]+) of the Protocol Buffer runtime library"
        r"|compiled against version (?P<built>[\d.]+) of the Protocol Buffer runtime library"
        r"|no attribute 'GetPrototype'|google\.protobuf\.runtime_version\.VersionError"
        r"|your generated code is out of date|No module named '?google(?:'|\.protobuf\b|\s*$)"
        r"|module 'google\.(?:protobuf|_upb)[\w.]*' has no attribute"
        r"|'google\._upb\.\w+\.\w+' object has no attribute|'FieldDescriptor' object has no attribute"
        r"|undefined symbol: *_ZNK?\d*6google8protobuf|Symbol not found: *_+ZNK?\d*6google8protobuf"
        r"|File already exists in database: |CHECK failed: \(?(?:GeneratedDatabase|generated_database_)"
        r"|expected bytes, Descriptor found|has no attribute 'message_types_by_name'|TypeError: bases must be types"
        r"|unexpected keyword argument '(?:serialized_options|create_key)'"
        r"|'module' object has no attribute 'Default'",  # descriptor_pool.Default came with 3.0
        stops_import=True,
    ),
    # --- Keras 2 and 3
    template(
        "keras-generation",
        "keras 3|keras3|tf_keras|tf-keras|keras.src|legacy keras|keras 2|tf_use_legacy_keras|keras cannot be imported|"
        "`keras.layer`|kerastensor|optimizer identifier|instance of class layer|keras optimizer, please|"
        "argument(s) not recognized|unrecognized keyword arguments|could not locate class|as_list|add_weight()|"
        "file format not supported|`.keras` extension|end in `.keras`|keras model instance",
        r"installed version of Keras is Keras 3|Keras 3.{0,60}not (?:yet )?supported|No module named 'tf_keras'"
        r"|not (?:yet )?supported (?:in|by|with) Keras ?3"
        r"|requires? (?:TF-)?Keras 2|install the backwards-compatible tf-keras|Keras 3 only supports V3"
        r"|install (?:the )?`?tf[-_]keras`?|do not have the tf_keras package"
        r"|File format not supported: filepath=|File format not supported.{0,40}Keras 3"
        r"|module 'keras\.src\.\w+' has no attribute"
        r"|Keras cannot be imported.{0,40}|Only instances of .?keras\.Layer.? can be added"
        r"|added layer must be an instance of class Layer.{0,20}(?:Found|Received): *<(?:" + _OF_THE_OTHER_KERAS + r")"
        r"|A KerasTensor (?:is symbolic|cannot be used as input to a TensorFlow function)"
        r"|Could not interpret optimizer identifier: *<(?:" + _OF_THE_OTHER_KERAS + r")"
        r"|valid Keras Model instance\. Received: <(?:" + _OF_THE_OTHER_KERAS + r")"
        r"|deprecated in the new Keras optimizer|Argument\(s\) not recognized: \{'(?:lr|decay)'"
        r"|Unrecognized keyword arguments: \['(?:batch_shape|optional|batch_input_shape)'"
        r"|Unrecognized keyword arguments passed to \w{1,60}: \{'"
        r"|Could not locate class '(?:Functional|Sequential)'"
        r"|Invalid filepath extension for saving|filepath. provided must end in .\.keras"
        r"|'tuple' object has no attribute 'as_list'|module 'tf_keras[\w.]*' has no attribute"
        r"|add_weight\(\) got multiple values for argument 'shape'",
        stops_import=True,
    ),
    # --- Keras of another release
    template(
        "keras-mismatch",
        "keras|compat.v2|dtensor|tf_utils",
        r"module '?tensorflow\.(?:_api\.v2\.)?compat\.v2(?:\.\w+)*'? has no attribute '?(?P<name>__internal__|\w+)"
        r"|can ?not import name '?(?:dtensor|tf_utils)'?"
        r"|cannot import name '(?P<inner>\w+)' from 'tensorflow\.compat\.v2[\w.]*'"
        r"|cannot import name '(?P<symbol>\w+)' from '(?P<module>(?:tensorflow\.python\.keras"
        r"|tensorflow\.keras|keras)[\w.]*)'"
        r"|cannot import name '?(?P<other>\w+)'? from '?tensorflow\.(?:python|compat)[\w.]*'? .*keras"
        r"|No module named '(?P<missing>(?:keras|tensorflow\.python\.keras|tensorflow\.keras)\.[\w.]+)'"
        r"|module '(?P<inside>tensorflow\.python\.keras[\w.]*)' has no attribute '(?P<absent>\w+)'"
        r"|module '(?P<where>keras[\w.]*)' has no attribute '(?P<attribute>\w+)'",
        stops_import=True,
    ),
    template(
        "keras-needs-tensorflow",
        "keras requires tensorflow|requires tensorflow version",
        r"Keras requires TensorFlow (?P<need>\d[\d.]*\d) or higher"
        r"|version of (?P<who>TensorFlow [A-Z]\w+) requires TensorFlow version >= (?P<least>[\d.]+\d)",
        stops_import=True,
    ),
    # stand-alone Keras before 2.4 has one module for all that it asks of TensorFlow
    template(
        "traceback",
        "tensorflow_backend.py",
        r"(?:site|dist)-packages[/\\]keras[/\\]backend[/\\]tensorflow_backend\.py",
        through="keras before 2.4",
    ),
    # frames of packages that are released together with TensorFlow, or for certain releases of it
    template(
        "traceback",
        "-packages",
        r"(?:site|dist)-packages[/\\](?P<neighbour>(?:" + _BESIDE + r")[/\\]\S{1,200}[^\n]{0,40})",
    ),
    # --- others that belong to one release
    template(
        "estimator-mismatch",
        "tensorflow_estimator|tensorboard|monitoring|metric|tf.estimator package",
        r"(?:tensorflow_estimator|tensorboard).{0,160}(?:ImportError|AttributeError)"
        r"|(?:ImportError|AttributeError).{0,80}(?:tensorflow_estimator|tensorboard)"
        r"|Monitoring.{0,20}already exists|Cannot register 2 metrics with the same name"
        r"|Another metric with the same name|module 'tensorflow_estimator[\w.]{0,80}' has no attribute"
        r"|tf\.estimator package not installed",
        stops_import=True,
    ),
    template(
        "addon-mismatch",
        "undefined symbol|symbol not found|tensorflow.python._pywrap",
        r"(?P<addon>" + _NATIVE + r")[^\s:']{0,160}: (?:undefined symbol|Symbol not found): *(?P<symbol>\S{1,200})",
        stops_import=True,
    ),
    template(
        "tf-internals-missing",
        "cannot import name|module 'tensorflow|no module named",
        r"cannot import name '?(?P<name>\w+)'? from '?(?P<module>tensorflow\.python[\w.]*|tensorflow_core[\w.]*)"
        r"|module '(?P<inside>tensorflow(?:_core)?\.(?:python|tools)\.(?!keras)[\w.]{1,100})' has no attribute "
        r"'(?P<absent>\w+)'"
        r"|No module named '?(?P<gone>tensorflow\."
        r"(?:tsl|compat\b(?!'; )|python\.(?!platform|_?pywrap|tools|keras)\w)[\w.]{0,100})",
        stops_import=True,
    ),
)
