"""Environment variables of the programs that install: index and proxies are the user's, the rest is set by tfgpu. Pure.

PIP_TARGET, UV_PYTHON, PYTHONPATH, VIRTUAL_ENV or an active conda environment would put packages elsewhere, or take
others. A program gets of the variables of its own family only those that name the index and how to reach it.
"""

from __future__ import annotations

import os.path
import re
from collections.abc import Mapping

_FAMILY = re.compile(r"(?:PIP|UV|CONDA|MAMBA|VIRTUALENV)_.*|(?:PYTHON|VIRTUAL_ENV|_CE_|__PYVENV).*")
_DISTURBING = re.compile(r"PYTHON(?:PATH|HOME)|(?:PIP|UV)_(?!(?:DISABLE_PIP_VERSION_CHECK|NO_INPUT|NO_PROGRESS)$).*")
_KEPT = re.compile(
    r"PIP_(?:INDEX_URL|EXTRA_INDEX_URL|FIND_LINKS|NO_INDEX|TRUSTED_HOST|CERT|CLIENT_CERT|PROXY|TIMEOUT"
    r"|DEFAULT_TIMEOUT|RETRIES|CACHE_DIR|NO_CACHE_DIR|CONFIG_FILE|KEYRING_PROVIDER|USE_FEATURE|USE_DEPRECATED)"
    r"|UV_(?:INDEX(?:_.*)?|DEFAULT_INDEX|EXTRA_INDEX_URL|FIND_LINKS|NO_INDEX|INSECURE_HOST|NATIVE_TLS|SYSTEM_CERTS"
    r"|HTTP_.*|REQUEST_TIMEOUT|CACHE_DIR|NO_CACHE|LINK_MODE|CONCURRENT_.*|KEYRING_PROVIDER|CONFIG_FILE|OFFLINE"
    r"|PYTHON_INSTALL_(?:DIR|MIRROR)|PYTHON_DOWNLOADS_JSON_URL|CREDENTIALS_DIR)"
    r"|CONDA_(?:PKGS_DIRS|CHANNEL_ALIAS|SSL_VERIFY|OFFLINE|REMOTE_.*|PROXY_SERVERS.*|OVERRIDE_.*|EXE|ROOT)"
    r"|CONDARC|MAMBA_(?:ROOT_PREFIX|EXE|SSL_VERIFY)|PYTHONUTF8|PYTHONIOENCODING"
)
# a relative one is meant from the folder of the user, and programs run in another one
_PATHS = re.compile(
    r"PIP_(?:FIND_LINKS|CERT|CLIENT_CERT|CACHE_DIR|CONFIG_FILE)|UV_(?:FIND_LINKS|CACHE_DIR|CONFIG_FILE|INDEX)"
    r"|UV_PYTHON_INSTALL_DIR|CONDARC|SSL_CERT_(?:FILE|DIR)|(?:REQUESTS|CURL)_CA_BUNDLE"
)
OURS = {
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PIP_NO_INPUT": "1",
    "PIP_USER": "0",  # of pip.conf, with which pip refuses to install into a virtual environment
    "PYTHONNOUSERSITE": "1",
    "PYTHONUNBUFFERED": "1",
    "UV_NO_PROGRESS": "1",
    "UV_PYTHON_INSTALL_BIN": "0",  # else uv python install puts a link into ~/.local/bin
    "UV_PYTHON_INSTALL_REGISTRY": "0",
    "NO_COLOR": "1",
    "CONDA_ALWAYS_YES": "1",
}


def of_children(environ: Mapping[str, str], folder: str, temporary: str) -> dict[str, str]:
    """The environment for pip, uv and conda.

    Args:
        environ: of this process.
        folder: the current directory, from which relative paths are meant.
        temporary: where they unpack; /tmp can be too small for wheels of 600 MB.
    """
    kept = {
        name: _absolute(value, folder) if _PATHS.fullmatch(name) else value
        for name, value in environ.items()
        if not _FAMILY.fullmatch(name) or _KEPT.fullmatch(name)
    }
    return {**kept, **OURS, "TMPDIR": temporary}


def dropped(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The variables that would send packages elsewhere, or bring others, and that the programs do not get."""
    return tuple(sorted(name for name in environ if _DISTURBING.fullmatch(name) and not _KEPT.fullmatch(name)))


def _absolute(value: str, folder: str) -> str:
    return " ".join(
        os.path.join(folder, word) if word and "://" not in word and not word.startswith(("~", "name=")) else word
        for word in value.split(" ")
    )
