"""Hosts with a path behind them that no leading folder tells: repositories, images, shares. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from tfgpu_doctor.redact.addresses import PUBLIC_HOSTS, is_full_name
from tfgpu_doctor.redact.paths import is_public
from tfgpu_doctor.redact.shapes import Match
from tfgpu_doctor.redact.vocabulary import NOBODY, is_term

_SHARES = re.compile(
    r"\bnfs|\bcifs|\bsmb|samba|\bmount|\brsync|\bscp\b|\bsshfs|\bautofs|lustre|net use|@tcp|@o2ib", re.IGNORECASE
)
_CHAR = r"[^\s\"'`,;()<>|:=]"


def is_server(name: str, around: str) -> bool:
    """Whether what stands before ":/" or behind "//" is a host: it has a digit or a dot, or it is about mounts."""
    if name.lower() in NOBODY or is_term(name) or PUBLIC_HOSTS.search(name):
        return False
    if _SHARES.search(around):
        return True
    return bool(re.search(r"[\d.]", name)) and not (is_public(name) or is_public(name.rpartition(".")[0] or name))


def _is_repository(match: Match) -> bool:
    return not PUBLIC_HOSTS.search(match["host"]) and match["host"] != "sha256"


def _is_registry(match: Match) -> bool:
    host, port = match["host"], match["port"]
    if not port:
        return is_full_name(host)
    told = "." in host or (len(port) > 4 and match["path"][1].isalpha())  # "step:10/100" is none
    return told and not is_public(host) and not PUBLIC_HOSTS.search(host)


def _is_share(match: Match) -> bool:
    return is_server(match["host"], match.string[max(0, match.start() - 200) : match.end()])


class Remote(NamedTuple):
    """An expression with the groups `user`, `host`, `port` and `path`, and what it takes to try it."""

    needle: str
    pattern: re.Pattern[str]
    accepts: Callable[[Match], bool]


REMOTES = (
    Remote(  # git@host:team/repository.git
        "@",
        re.compile(
            rf"(?<![\w.+@/-])(?:(?P<user>[\w.+-]+)@)(?P<host>[A-Za-z][\w.-]*)(?P<port>)"
            rf":(?P<path>(?![\d.]+(?:\s|$))[A-Za-z0-9_.]{_CHAR}*)"
        ),
        _is_repository,
    ),
    Remote(  # registry.example.org:5000/team/image
        "/",
        re.compile(
            rf"(?<![\w./:@<>\\-])(?P<user>)(?P<host>[A-Za-z0-9][\w-]*(?:\.[\w-]+)*)(?P<port>(?::\d{{2,5}})?)"
            rf"(?P<path>/[A-Za-z0-9]{_CHAR}*)"
        ),
        _is_registry,
    ),
    Remote(  # \\server\share, also with doubled backslashes
        "\\\\",
        re.compile(
            r"(?<![\w\\:/.>])(?P<user>)\\{2,8}(?P<host>[A-Za-z0-9][\w.$-]{2,})(?P<port>)"
            r"(?P<path>(?:\\{1,8}[^\s\\/\"'`,;()|:*?]+)+)"
        ),
        lambda match: match["host"] not in ("", "."),
    ),
    Remote(  # //server/share
        "//",
        re.compile(rf"(?<![\w:/\\.<>-])(?P<user>)//(?P<host>[A-Za-z0-9][\w.-]*)(?P<port>)(?P<path>/{_CHAR}+)"),
        _is_share,
    ),
)
