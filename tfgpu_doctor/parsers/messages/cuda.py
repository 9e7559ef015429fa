"""Messages about CUDA's and cuDNN's libraries, and about XLA's compiler.

Sources: TensorFlow's dso_loader.cc, cudart_stub.cc, cuda_dnn.cc, cuda_blas.cc, self_check.py and XLA's
nvptx_compiler.cc, ptx_compiler.cc and gpu_backend_lib.cc at the tags v1.0 to v2.20; cuDNN's own loader.
"""

from __future__ import annotations

from tfgpu_doctor.parsers.messages.template import template

# a library by its file name: libcudart.so.11.0, cudnn64_8.dll, libcudnn_cnn_infer.so.8, libcudart.8.0.dylib
_LIBRARY = r"(?P<library>(?:[\w./\\:-]*[/\\])?[\w+-]+?(?:\.so(?:\.\d+)*|\.dll|(?:\.\d+)*\.dylib))"
# where a path may begin that is searched for: at a slash within another, each would be read to the end once more
_PATH_BEGINS = r"(?:^|[\s'\"(]|(?<![\w.\\/:-])/)"
_NVIDIA_DLL = (
    r"(?P<library>(?:cudart|cublas|cublasLt|cudnn|cufft|curand|cusolver|cusparse|nvcuda)(?:64)?(?:_\d+)?\.dll)"
)

TEMPLATES = (
    template(
        "library-not-opened",
        "could not load dynamic library|couldn't open cuda library|could not dlopen|could not find |could not load |"
        "failed to find libcuda|unable to load cudnn dso|unable to load cublas dso",
        rf"(?:Could not (?:load dynamic library|dlopen (?:library|DSO:)|find|load)"
        rf"|Couldn't open CUDA library|failed to find)"
        rf" *['\"]?{_LIBRARY}(?:['\"]|[,;.]|\s|$)(?:.*?dlerror: *(?P<why>.*?)(?:; LD_LIBRARY_PATH.*)?$)?",
    ),
    template(
        "library-not-opened",
        ".dll",
        rf"(?:^|[\s'\"(]){_NVIDIA_DLL}['\"]? (?:was |is |could )?(?:not found|not be found|missing|cannot be found)",
    ),
    template(
        "library-not-opened",
        "libcu|libnv|64_",
        rf"(?:not able to|can(?:'t|not)|unable to|does ?n[o']t|fails? to|tries to"
        rf"|trying to|tried to) (?:find|load|open|locate"
        rf"|see) (?:the )?(?:library |file )?['\"`]?{_LIBRARY}",
    ),
    template(
        "library-not-opened",
        "wants|looks for|look for|looking for|asks for|searches for",
        rf"\b(?:wants|looks? for|(?:is|keeps) looking for|asks for|searches for) (?:the )?(?:library "
        rf"|file )?['\"`]?{_LIBRARY}",
    ),
    # TensorFlow's own check on Windows, whose traceback shows what it was about to load
    template("library-not-opened", "build_info.cudnn", r"build_info\.cudnn_dll_name", library="cudnn64_.dll"),
    template("library-not-opened", "build_info.cudart", r"build_info\.cudart_dll_name", library="cudart64_.dll"),
    template("library-not-opened", "build_info.nvcuda", r"build_info\.nvcuda_dll_name", library="nvcuda.dll"),
    template("library-not-opened", "in cudnn dso", r"could not find cudnn\w+ in cudnn DSO", library="libcudnn.so"),
    # the dynamic loader's own words, at an import: nothing goes on after this
    template(
        "loader-error",
        "cannot open shared object file|library not loaded|file too short|invalid elf header|wrong elf class|"
        "failed to map segment|static tls block",
        rf"{_PATH_BEGINS}{_LIBRARY} ?: (?P<why>cannot open shared object file[^;]*|file too short"
        rf"|invalid ELF header|wrong ELF class"
        rf"|failed to map segment|cannot allocate memory in static TLS block)",
    ),
    template(
        "loader-error",
        "importerror",
        rf"ImportError:? ['\"`]?{_LIBRARY}['\"`]?(?:\s*$"
        r"| (?:with|in|when|on|after)\b)",
    ),
    template(
        "loader-error",
        "library not loaded",
        r"Library not loaded: (?:@rpath/)?(?P<library>(?:[\w./-]*/)?lib\w+(?:\.\d+)*\.dylib)",
    ),
    template(
        "library-opened",
        "successfully opened",
        rf"successfully opened (?:dynamic|CUDA) library {_LIBRARY}",
        role="context",
    ),
    template("loader-path", "ld_library_path:", r"LD_LIBRARY_PATH: *(?P<path>\S*)", role="context"),
    template(
        "cudart-not-found", "could not find cuda drivers on your machine|error loading cuda libraries. gpu will not be"
    ),
    template("cudart-ignorable", "ignore above cudart dlerror", role="context"),
    template("gpu-libraries-not-opened", "cannot dlopen some gpu libraries"),
    template("no-gpu-registered", "skipping registering gpu devices", role="context"),
    template("self-check", "could not find cudnn", r"Could not find cuDNN (?P<cudnn>\d+(?:\.\d+)?)"),
    # --- cuDNN
    template(
        "cudnn-version-differs",
        "source was",
        r"Loaded (?:runtime )?cudnn library: *(?P<runtime>[\d.]+)(?: \(compatibility version \d+\))?"
        r" but source was(?: compiled (?:with|against):? *(?P<compiled>[\d.]+)|\s*$)",  # the rest may be wrapped
    ),
    template("cudnn-loaded", "loaded cudnn version", r"Loaded cuDNN version (?P<version>\d+)", role="context"),
    template(
        "cudnn-handle",
        "cudnn handle|cudnncreate|cudnn failed to initialize|cudnn failed with status|failed to get "
        "convolution algorithm|cudnn launch failure|cudnn backward|getconvolvealgorithms",
        r"(?:could not create cudnn handle|cudnnCreate\S*"
        r"|failed to create cudnn handle)\W*(?P<status>CUDNN_STATUS_\w+)?"
        r"|cuDNN failed to initialize|CuDNN failed with status|Failed to get convolution algorithm"
        r"|cuDNN (?:Backward \w+ function )?launch failure|Check failed: \S*GetConvolveAlgorithms",
    ),
    template("cudnn-status", "cudnn_status_", r"\b(?P<status>CUDNN_STATUS_[A-Z_]+[A-Z])\b"),
    template(
        "no-dnn-library",
        "dnn library|no dnn in stream executor|without dnn support|no algorithm worked|dnn support",
        r"DNN library (?:is not found|initialization failed)|No DNN in stream executor|without DNN support",
    ),
    # cuDNN's own words about the libraries that it opens itself
    template(
        "cudnn-part-missing",
        "could not load library|could not locate|unable to load any of|invalid handle. cannot load symbol",
        rf"(?:Could not (?:load library|locate)"
        rf"|Unable to load any of \{{?) *['\"]?{_LIBRARY}|Invalid handle\. Cannot load symbol \w+",
    ),
    # somebody has looked: the library is where he looked
    template(
        "said-to-be-there",
        "is there|are there|is present|are present|in path|in my path|on path|in ld_library_path|is in the|"
        "are in the|install",
        r"^(?!.{0,300}(?:[Mm]ake sure|version of|not\b|n't\b|\bif\b|should|whether|according))(?:.{0,200}?"
        r"\b(?:[Ff]iles?|dlls?|DLLs?|[Ll]ibrar(?:y|ies)|[Ff]olders?|libs?|lib(?:cu"
        r"|nv)\w{1,20}\.so[\d.]{0,12}|\w{3,20}64_\d{1,4}\.dll)"
        r"\b.{0,60}\b(?:is|are) (?:indeed |clearly |all )?(?:there|present|in (?:the |my )?(?:PATH"
        r"|LD_LIBRARY_PATH|folder|directory))\b"
        r"|.{0,200}?\binstalled\b.{0,60}\b(?P<what>cu[dD][nN][nN])\b(?![ _=-]{0,3}v?\d))",
        role="context",
    ),
    template(
        "said-to-be-there",
        "libcudnn",
        r"\bcp (?:-\w+ )?\S*(?P<what>libcudnn)\S* \S*/lib|dpkg -i \S*libcudnn",
    ),
    # a library under the name of another version: it is opened, and what it lacks is missing later
    template(
        "library-renamed",
        ".so.",
        r"\b(?:ln|cp|mv) (?:-\w+ ){0,3}(?:\S*/)?(?P<library>lib(?:cu|nv|nccl)\w{1,24})\.so\.(?P<found>\d[\d.]*)"
        r" (?:\S*/)?(?P=library)\.so\.(?P<named>\d[\d.]*)",
        role="context",
    ),
    template("cudart-symbol", "symbol not found", r"\bcuda[A-Z]\w{3,40} symbol not found"),  # cudart_stub.cc
    # --- the other libraries
    template(
        "cublas-handle",
        "cublas handle|cublas: |blas support|gemm launch failed|gemv launch failed|cublas_status_|blas xgemm|cublaslt",
        r"failed to create cublas handle: *(?P<status>CUBLAS_STATUS_\w+|[\w ]+)?|without BLAS support"
        r"|Blas \w+ launch failed|\b(?P<code>CUBLAS_STATUS_[A-Z_]+[A-Z])\b",
    ),
    template(
        "cusolver-handle", "cusolver", r"(?:cuSolverDN call failed with status|CUSOLVER_STATUS_)\W*(?P<status>\w+)?"
    ),
    template("cufft-failed", "cufft", r"failed to (?:make|initialize|create|allocate).{0,30}cuFFT|CUFFT_\w+"),
    # --- XLA
    template(
        "libdevice-not-found",
        "libdevice",
        r"Can'?t find libdevice|libdevice not found|libdevice is required by this HLO module but was not found"
        r"|Unable to find libdevice|could not find libdevice|libdevice\.10\.bc.{0,40}(?:not found|No such file)",
    ),
    template(
        "ptxas-refused",
        "ptxas",
        r"ptxas (?P<version>\d+(?:\.\d+)+) has a bug|using ptxas (?P<old>\d+(?:\.\d+)+), which is (?:older|in range)"
        r"|using ptxas (?P<ancient>\d\.x)|ptxas too old|requires ptxas version"
        r"|ptxas .{0,40}older than the minimum supported"
        r"|ptxas does not support CC",
    ),
    template(
        "ptxas-not-found",
        "ptxas|createprocess failed",
        r"(?:Couldn't|Could not|Failed to) (?:invoke|launch|find|get) ptxas|ptxas not found|Unable to find ptxas"
        r"|Can'?t find ptxas|ptxas --version returned -?\d|Couldn't (?:get|parse) ptxas(?:/nvlink)? version"
        r"|ptxas: (?:command )?not found"
        r"|No such file or directory.{0,40}ptxas|ptxas.{0,40}No such file|Call to CreateProcess failed\. Error code: 2"
        r"|(?:can ?not|not|unable to|doesn't|fails? to)(?: \w+){0,3} (?:find|detect|locat)\w* (?:the )?ptxas",
    ),
    template(
        "ptx-provider-missing",
        "ptx compilation provider|unsafe_fallback_to_driver",
        r"No PTX compilation provider is available|xla_gpu_unsafe_fallback_to_driver_on_ptxas_not_found",
    ),
    template("ptxas-failed", "ptxas returned an error|ptxas exited with|ptxas fatal"),
    template(
        "driver-compiles-ptx",
        "relying on driver to perform ptx compilation|falling back to the driver|falling back to compilation by driver",
    ),
    template("jit-failed", "jit compilation failed|libdevice not found at"),
)
