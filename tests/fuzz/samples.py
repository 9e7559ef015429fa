"""Real input of every reader, as it lies in the tests: what the mutations begin with."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import psutil

from tests.bench import large_samples
from tests.bench.samples import failed, result, run
from tests.findings.rows_over_facts import FIRES
from tests.fuzz import mutations
from tests.manifests import other_shapes, real_shapes
from tests.manifests.test_more_readers import GROUPS, OFFICIAL
from tests.manifests.test_more_readers import POETRY as OLD_POETRY
from tests.manifests.test_reading import COMPOSE, DOCKERFILE, KUBERNETES, POETRY, PYPROJECT
from tests.matrix.test_matrix_layers import BUILD, HEAD
from tests.probes.test_events import RUN
from tests.records.test_report import report
from tfgpu_doctor.diagnosis.reports import make_report
from tfgpu_doctor.inference import text_to_facts
from tfgpu_doctor.matrix.loader import Matrix
from tfgpu_doctor.parsers.text import lines

texts = mutations.corpus
ENVIRONMENT = (
    "name: x\nchannels: [conda-forge]\ndependencies:\n- python=3.10\n- cudatoolkit=11.8\n- pip:\n  - tensorflow\n"
)
TABLES = """gpus:
- {compute_capability: "9.0", source: ours, names: [Wonder 1]}
peaks:
- {compute_capability: "9.0", products: Wonder, float32: 256, tf32: 1024, source: ours}
cudnn:
- {version: "9.28", min_compute_capability_by_cuda: {"13": "8.0"}, source: ours}
"""
REQUIREMENTS = (
    "-r other.txt\n-c pins.txt\ntensorflow[and-cuda]==2.15.1 ; python_version < '3.12' --hash=sha256:0\nnumpy<2\n"
)


def _encoded(*values: object) -> tuple[bytes, ...]:
    return tuple(json.dumps(value).encode() for value in values)


_VERSIONS = ("2.13.0", "12.4", "535.104.05", "2.17.0+nv25.2", "8.6", "570", "10")
_OF_ONE = {  # what only one of them takes
    "bench.devices.parse_gpus": ("all", "2", "16"),
    "bench.devices.parse_devices": ("cpu,gpu:0,gpu:1", "gpu:0"),
    "bench.plans.sweep.parse_sizes": ("256,512,1024", "1024", "256-8192"),
    "bench.cluster.membership.parse": (
        '{"cluster": {"worker": ["a:1", "b:2"]}, "task": {"type": "worker", "index": 0}}',
        '{"cluster": {"chief": ["10.0.0.1:22"], "worker": ["[::1]:2"]}, "task": {"type": "chief", "index": 0}}',
    ),
    "plan.target.read_driver": ("535.104.05", "570"),
    "plan.target.read_python": ("3.12", "3.10.4"),
    "manifests.toml_project.loads": ('tensorflow = { version = "2.15", extras = ["and-cuda"] }', "[tool.x]\nb = [1]"),
    "probes.systems.windows.driver_version": ("31.0.15.3623", "9.18.13.4725", "32.0.15.84"),
    "records.versions.": _VERSIONS,
    "fleet.expectations.": ("gpus=8,driver>=580.65,<590", "memory=80GB,ecc=on", "numpy==2.*,tensorflow=2.21"),
    "fleet.labels.": (
        "[pod/gpu-1/tfgpu] 2026-11-23T10:00:00Z {",
        "(doctor pid=12, ip=10.0.0.1) } [repeated 3x across cluster]",
        "gpu-1 | FAILED | rc=1 | (stdout) {\\n} (stderr) x",
        "ok: [gpu-1 -> localhost] => {",
        "clush: gpu-[08-10,12],login (5): exited with exit code 1",
    ),
}


@cache
def values(name: str = "") -> Sequence[bytes]:
    """Short texts: versions, names, options, lines of every kind; of a reader that takes few of them, mostly those."""
    own = next((found for start, found in _OF_ONE.items() if name.startswith(start)), ())
    return tuple(one.encode() for one in own) * 15 + _values()


@cache
def private() -> Sequence[bytes]:
    """What names someone, some place or a secret, and what looks like it."""
    found = (
        "mount -t nfs nfs01:/export/data //files2/share",
        "git@host7.corp:team/x.git",
        "curl -u ada:pw https://h/x",
    )
    return (*(one.encode() for one in found), *_values())


@cache
def capabilities() -> Sequence[bytes]:
    """Of --compute-capability."""
    return tuple(one.encode() for one in ("8.6", "sm_89", "12.0", "3.5"))


@cache
def comparisons() -> Sequence[bytes]:
    """A version and a specifier."""
    return (b"2.15.1 >=2.15,<3", b"2.17.0+nv25.2 ==2.17.*", b"2.13.0rc1 ~=2.13,!=2.13.1")


@cache
def requirements() -> Sequence[bytes]:
    """One each."""
    found = (
        "tensorflow[and-cuda]==2.15.1",
        "numpy<2,>=1.24 ; python_version < '3.12'",
        "x @ https://h/x-1-py3-none-any.whl",
    )
    conda = (
        "cudatoolkit=11.8",
        "conda-forge::tensorflow=2.15.0=cuda118*",
        "python >=3.9,<3.12",
        "cudnn 8.1.*",
        "a=1=h_0",
    )
    return tuple(one.encode() for one in (*found, *conda))


@cache
def _values() -> tuple[bytes, ...]:
    found = (
        *("2.13.0", "12.4", "535.104.05", "2.17.0+nv25.2", ">=2.15,<2.17", "~=2.4", "==2.*", "3.10.12", "8.6", "sm_89"),
        *("NVIDIA GeForce RTX 4090 Laptop GPU", "A100-SXM4-80GB MIG 1g.10gb", "Tesla K80, GTX 1080 Ti", "H100", "L4"),
        *("all", "2", "/GPU:0,/CPU:0", "gpu:1", "256,512,1024", "1K", "4GiB", "float32,tf32", "nvidia.com/gpu: 1"),
        *(
            "libcudart.so.11.0",
            "libcuda.so.1 (libc6,x86-64) => /usr/lib/x86_64-linux-gnu/libcuda.so.1",
            "00000000:65:00.0",
        ),
        *(
            "tensorflow[and-cuda]==2.15.1",
            "cudatoolkit=11.8",
            "tensorflow-2.13.0-cp310-cp310-manylinux_2_17_x86_64.whl",
        ),
        *("pip install --upgrade 'tensorflow==2.4.*' -i https://user:pw@host/simple", "conda create -n tf python=3.9"),
        *(
            "CUDA/cuDNN version: 11.2 / 8.1.0",
            "Python 3.8, Windows 10, RTX 3090",
            "git+https://x/y@main#egg=tensorflow",
        ),
        *(
            "FROM tensorflow/tensorflow:2.4.1-gpu AS base",
            "${BASE:-nvidia/cuda}:${TAG}",
            "nvcr.io/nvidia/tensorflow:24.03-tf2-py3",
        ),
        *('{"cluster": {"worker": ["a:1", "b:2"]}, "task": {"type": "worker", "index": 0}}', "node[01-04]:2222"),
        *(
            "/home/ada/project/.venv/lib/python3.10/site-packages",
            r"C:\Users\Ada Lovelace\x",
            "ada@example.org",
            "10.0.0.1",
        ),
        "2023-03-01 10:00:00.1: W tensorflow/stream_executor/platform/default/dso_loader.cc:64] Could not load",
        "NVRM: Xid (PCI:0000:65:00): 79, pid=0, GPU has fallen off the bus.",
        "| NVIDIA-SMI 535.104.05   Driver Version: 535.104.05   CUDA Version: 12.2     |",
        '{"tfgpu": "patient/1", "event": "end", "phase": "interpreter", "data": {"version": "3.10.12"}}',
        "tensorflow                2.13.0                   pypi_0    pypi",
    )
    return tuple(one.encode() for one in found)


@cache
def commands() -> Sequence[bytes]:
    """What a Dockerfile runs."""
    return tuple(
        one.encode()
        for one in (
            "apt-get update && apt-get install -y --no-install-recommends cuda-toolkit-12-2=12.2.0-1 \\\n pip",
            "set -eux; pip3 install -r requirements.txt 'tensorflow==2.4.*' || true; FOO=\"a $(b)\" uv pip install tf",
            "conda install -y -c conda-forge cudatoolkit=11.2 cudnn && poetry add 'tensorflow@^2.13' # why",
        )
    )


_WITH_STAGES = [real_shapes.SHAPES[name] for name in ("venv in the home of an app", "wheels", "uv sync")]
_MANIFESTS = {
    "requirements": (REQUIREMENTS,),
    "pyproject": (PYPROJECT, POETRY, OLD_POETRY, GROUPS),
    "dockerfile": (DOCKERFILE, OFFICIAL % "2.4.1", *(one.files["Dockerfile"] for one in _WITH_STAGES)),
    "conda": (ENVIRONMENT,),
    "compose": (COMPOSE,),
    "kubernetes": (KUBERNETES,),
    ".tool-versions": ("nodejs 20.1.0\npython 3.11.4 3.10.9\n",),
    ".python-version": ("# ours\n3.11.7\n3.9\n",),
    "singularity": (other_shapes.DEFINITION,),
    "notebook": (other_shapes.NOTEBOOK,),
    "workflow": (other_shapes.WORKFLOW, other_shapes.IN_A_CONTAINER),
}


@cache
def manifests(kind: str) -> Sequence[bytes]:
    """Files of a kind; now and then one of another."""
    others = [one for name, found in _MANIFESTS.items() if name != kind for one in found]
    return tuple(one.encode() for one in (*(_MANIFESTS[kind] * 40)[:40], *others))


@cache
def reports() -> Sequence[bytes]:
    """Of real texts, and of the machines of the signs' own tests, which know of every fact."""
    matrix = Matrix.load()
    told = [text_to_facts.read(lines.read([text[: mutations.LARGEST]])) for text in texts()[::25]]
    machines = [report(rows[0][1]).facts for rows in list(FIRES.values())[::2] if rows]
    pasted = [make_report(facts, matrix, source="text", timings={}) for facts in told]
    live = [make_report(facts, matrix, source="live", timings={"all": 1.5}) for facts in machines]
    return tuple(one.to_json() for one in (report(), *pasted, *live))


@cache
def results() -> Sequence[bytes]:
    """Of benchmarks, each with few runs and readings."""
    small = result(run(), run("1 GPU", 0.05, gpu=large_samples.watched(1, 0.5)), failed("2 GPUs, rows", "it died"))
    return tuple(one.to_json() for one in (small, large_samples.sweep(), large_samples.failures()))


@cache
def baselines() -> Sequence[bytes]:
    """Results of smoke and of benchmarks."""
    from tests.fuzz.calls import smoke

    return (smoke().to_json(), results()[0])


@cache
def answers() -> Sequence[bytes]:
    """What a worker answers to each request."""
    gpus = [{"name": "NVIDIA H200", "compute_capability": "9.0"}]
    block = {"samples": [0.1, 0.11], "loads": [2.0, 1.9], "misplaced": None, "waited": 0.1, "busy": 0.4}
    verified = {"rms": 9e-7, "worst_row": 2e-6}
    hello = {"tensorflow": "2.21.0", "numpy": "2.4.6", "python": "3.12.3", "gpus": gpus}
    return _encoded({"hello": hello, "prepare": {"cold": {"import": 1.5}}, "sample": block, "verify": verified})


@cache
def layers() -> Sequence[bytes]:
    """Matrices of a user's, in JSON, which is YAML."""
    import yaml

    return _encoded(yaml.safe_load(HEAD + BUILD), yaml.safe_load(HEAD + TABLES))


@cache
def machines() -> Sequence[bytes]:
    """Files that probes read, by path."""
    files = {
        "/etc/os-release": 'NAME="Ubuntu"\nPRETTY_NAME="Ubuntu 22.04.4 LTS"\nID=ubuntu\nVERSION_ID="22.04"\n',
        "/proc/sys/kernel/osrelease": "6.8.0-45-generic\n",
        "/proc/cpuinfo": "processor\t: 0\nmodel name\t: AMD EPYC 9654\nflags\t\t: fpu sse avx2\n",
        "/proc/meminfo": "MemTotal:       16000000 kB\nMemFree: 1 kB\n",
        "/proc/modules": "nvidia 56717312 104 nvidia_uvm,nvidia_modeset, Live 0x0000000000000000 (PO)\n",
        "/proc/self/cgroup": "12:cpu,cpuacct:/docker/1\n3:memory:/docker/1\n0::/system.slice/x.service\n",
        "/proc/1/cgroup": "0::/kubepods/x\n",
        "/proc/vmstat": "pgfault 1\noom_kill 2\n",
        "/sys/fs/cgroup/cpu.max": "200000 100000\n",
        "/sys/fs/cgroup/memory.max": "8589934592\n",
        "/sys/fs/cgroup/memory.events": "low 0\noom 1\noom_kill 1\n",
        "/sys/fs/cgroup/cpu/docker/1/cpu.cfs_quota_us": "150000\n",
        "/sys/fs/cgroup/cpu/docker/1/cpu.cfs_period_us": "100000\n",
        "/sys/fs/cgroup/memory/docker/1/memory.limit_in_bytes": "4294967296\n",
        "/sys/bus/pci/devices/0000:65:00.0/vendor": "0x10de\n",
        "/sys/bus/pci/devices/0000:65:00.0/class": "0x030000\n",
        "/sys/bus/pci/devices/0000:65:00.0/device": "0x2684\n",
        "/sys/bus/pci/devices/0000:65:00.0/current_link_width": "16\n",
        "/usr/share/misc/pci.ids": pci_ids()[0].decode(),
        "/proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.113.01  Tue Sep 12\n",
        "/lib/modules/6.8.0/modules.dep": "kernel/drivers/nvidia.ko.zst: kernel/x.ko\n",
        "/dev/kmsg": "3,813,4107,-;NVRM: Xid (PCI:0000:65:00): 79, pid=0, GPU has fallen off the bus.\n",
        "/etc/ld.so.conf": "include /etc/ld.so.conf.d/*.conf\n/opt/lib\n",
        "/etc/ld.so.conf.d/cuda.conf": "/usr/local/cuda/lib64\n",
        "/usr/local/cuda/version.json": '{"cuda": {"version": "12.2.0"}, "cuda_nvcc": {"version": "12.2.91"}}',
        "/usr/local/cuda-11/version.txt": "CUDA Version 11.2.0\n",
        "/opt/cuda/include/cuda.h": "#define CUDA_VERSION 12020\n",
        "/usr/include/cudnn_version.h": "#define CUDNN_MAJOR 8\n#define CUDNN_MINOR 9\n#define CUDNN_PATCHLEVEL 7\n",
        "/env/conda-meta/cudatoolkit-11.8.0-h1.json": '{"name": "cudatoolkit", "version": "11.8.0", "channel": "x"}',
        "/env/conda-meta/history": "==> 2024 <==\n+conda-forge::cudatoolkit-11.8.0\n",
        "/env/share/jupyter/kernels/tf/kernel.json": '{"argv": ["python3", "-m", "ipykernel"], "display_name": "TF"}',
        "/env/bin/pip": "#!/env/bin/python3.10\n",
        "/env/lib/python3.10/site-packages/tensorflow/include/third_party/gpus/cuda/cuda_config.h": (
            '#define TF_CUDA_TOOLKIT_PATH "/usr/local/cuda"\n'
        ),
    }
    return _encoded(files)


@cache
def distributions() -> Sequence[bytes]:
    """What installers leave of a package."""
    metadata = "Metadata-Version: 2.1\nName: tensorflow\nVersion: 2.13.0\nRequires-Dist: numpy<=1.24.3,>=1.22\n\nText\n"
    return _encoded({"METADATA": metadata, "INSTALLER": "pip\n", "RECORD": "a,sha256=x,1\n", "direct_url.json": "{}"})


@cache
def libraries() -> Sequence[bytes]:
    """The smallest shared library of a dependency, and its beginning alone."""
    smallest = min(Path(psutil.__file__).parent.glob("*.so"), key=lambda path: path.stat().st_size).read_bytes()
    return (smallest, smallest[:4096], smallest[:64])


@cache
def driver_lines() -> Sequence[bytes]:
    """What the children that ask NVML and CUDA print."""
    nvml = [
        {"load": "/usr/lib/libnvidia-ml.so.1", "begin": "nvmlInit"},
        {"init": [0, "NVML_SUCCESS", "Success"]},
        {"system": True, "key": "driver_version", "value": "535.113.01"},
        {"system": True, "key": "cuda_version", "value": 12020},
        {"system": True, "key": "count", "value": 2},
        {"begin": "nvmlDeviceGetName", "gpu": 0},
        {"gpu": 0, "key": "name", "value": "NVIDIA A30"},
        {"gpu": 0, "key": "memory", "value": [1, 2, 3]},
        {"gpu": 0, "key": "temperature", "error": [3, "NVML_ERROR_NOT_SUPPORTED", "Not Supported"]},
        {"gpu": 1, "key": "processes", "value": [[1, 2], [3, None]]},
        {"gpu": 1, "key": "pci_bus_id", "value": "00000000:65:00.0"},
        {"gpu": 0, "device": 0, "key": "device", "value": {"name": "A30", "capability": [8, 0], "total": 1}},
        {"peers": [0, 1], "key": "topology", "value": 10},
    ]
    return _encoded(nvml)


@cache
def events() -> Sequence[bytes]:
    """What the probe script prints, event by event."""
    return _encoded(RUN)


@cache
def kernels() -> Sequence[bytes]:
    """kernel.json."""
    return _encoded({"argv": ["/env/bin/python3", "-m", "ipykernel_launcher", "-f", "{x}"], "display_name": "Python 3"})


@cache
def caches() -> Sequence[bytes]:
    """ldconfig -p."""
    rows = ("libcuda.so.1 (libc6,x86-64) => /lib/x86_64-linux-gnu/libcuda.so.1", "libz.so.1 (ELF) => /lib/libz.so.1")
    return ("\n\t".join(("2 libs found in cache `/etc/ld.so.cache'", *rows)).encode(),)


@cache
def pci_ids() -> Sequence[bytes]:
    """The beginning of NVIDIA's section."""
    return (
        b"10de  NVIDIA Corporation\n\t2684  AD102 [GeForce RTX 4090]\n\t\t1043 889b  TUF\n10df  Emulex\n\t0720  x\n",
    )
