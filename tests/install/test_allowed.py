"""Which printed commands a repair executes, and as which argument lists."""

from __future__ import annotations

import pytest

from tfgpu_doctor.install.allowed import Environment, argument_lists, is_allowed, names_of, releases_of

PYTHON = "/env/bin/python"
HERE = Environment(
    prefix="/env",
    pythons=names_of("/env", PYTHON),
    releases=frozenset({"2.17.1"}),
    outside=frozenset({"h5py"}),
    uv="/opt/uv",
)
UV = ("/opt/uv", "pip", "install", "--python", PYTHON)
ACCEPTED = {
    f"{PYTHON} -m pip install 'numpy<2' keras~=3.5": (PYTHON, "-m", "pip", "install", "numpy<2", "keras~=3.5"),
    f"{PYTHON} -m pip install --force-reinstall --no-deps nvidia-cudnn-cu12==8.9.7.29": (
        *(PYTHON, "-m", "pip", "install", "--force-reinstall", "--no-deps", "nvidia-cudnn-cu12==8.9.7.29"),
    ),
    f"{PYTHON} -m pip uninstall -y tensorflow tensorflow-cpu": (
        *(PYTHON, "-m", "pip", "uninstall", "-y", "tensorflow", "tensorflow-cpu"),
    ),
    f"{PYTHON} -m ensurepip --upgrade": (PYTHON, "-m", "ensurepip", "--upgrade"),
    f"uv pip install --python {PYTHON} 'tensorflow[and-cuda]==2.17.1'": (*UV, "tensorflow[and-cuda]==2.17.1"),
    f"/opt/uv pip install --python {PYTHON} keras": (*UV, "keras"),
}
REFUSED = (
    "",
    "unset CUDA_VISIBLE_DEVICES",
    "export LD_LIBRARY_PATH=/env/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}",
    "sudo reboot",
    "/usr/bin/python3 -m pip install keras",  # another Python
    "/env/bin/../../usr/bin/python3 -m pip install keras",
    "/env/bin/evil -m pip install keras",
    "python -m pip install keras",  # whichever that is
    "uv pip install --python /usr/bin/python3 keras",
    "uv pip install keras",
    "/tmp/uv pip install --python /env/bin/python keras",
    "uv pip install --python",
    f"{PYTHON} -m pip install tensorflow",  # whatever is the newest
    f"{PYTHON} -m pip install 'tensorflow[and-cuda]==2.20.0'",  # another release
    f"{PYTHON} -m pip install 'tensorflow>=2.17.1'",
    f"{PYTHON} -m pip install 'tensorflow==2.17.1,!=2.16'",
    f"{PYTHON} -m pip install TensorFlow_GPU==2.12.0",
    f"{PYTHON} -m pip install h5py",  # lies outside of the environment
    f"{PYTHON} -m pip install --target /x keras",
    f"{PYTHON} -m pip install --index-url=http://x keras",
    f"{PYTHON} -m pip install -r requirements.txt",
    f"{PYTHON} -m pip install ./keras",
    f"{PYTHON} -m pip install 'keras @ https://example.org/keras.whl'",
    f"{PYTHON} -m pip install --force-reinstall",
    f"{PYTHON} -m pip download keras",
    f"{PYTHON} -m pip install keras; rm -rf /",
    f"{PYTHON} -m pip install $(rm -rf /)",
    f"{PYTHON} -m pip install 'keras",
    f"{PYTHON} -m ensurepip --root /",
    f"{PYTHON} -m venv ~/tf",
    f"{PYTHON} -c 'import os'",
)


@pytest.mark.parametrize("command", ACCEPTED)
def test_accepted(command: str) -> None:
    assert argument_lists([command], HERE) == (ACCEPTED[command],)
    assert is_allowed(ACCEPTED[command], HERE)  # as it is written down for a later run


@pytest.mark.parametrize("command", REFUSED)
def test_refused(command: str) -> None:
    assert argument_lists([command], HERE) is None


def test_all_commands_of_a_fix_or_none() -> None:
    good = next(iter(ACCEPTED))
    assert argument_lists([good, "sudo reboot"], HERE) is None
    assert argument_lists([], HERE) is None


def test_releases_that_commands_name() -> None:
    assert releases_of([["pip", "install", "tensorflow[and-cuda]==2.17.1", "keras==3.5", "a b==c"]]) == {"2.17.1"}
