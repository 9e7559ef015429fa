"""What people and programs call an operating system.

>>> name("Linux Ubuntu 20.04.6 LTS")
OsName(os='linux', distribution_id='ubuntu', distribution_version='20.04.6', kernel=None, machine=None, libc=None)
>>> name("Linux-5.15.146.1-microsoft-standard-WSL2-x86_64-with-glibc2.35").os
'wsl2'
>>> name("Linux-6.13.4-zen1-1-zen-x86_64-with-glibc2.41")  # doctest: +NORMALIZE_WHITESPACE
OsName(os='linux', distribution_id=None, distribution_version=None, kernel='6.13.4-zen1-1-zen', machine='x86_64',
       libc='glibc 2.41')
>>> name("windows10").os, name("Windows 11 and WSL2").os, name("Mac OS X 10.11.6").os, name("17.10").os
('windows', 'wsl2', 'macos', None)
"""

from __future__ import annotations

import re
from dataclasses import dataclass

LONGEST = 400

# the ids of os-release
_DISTRIBUTIONS = tuple(
    (re.compile(pattern, re.IGNORECASE), identifier)
    for pattern, identifier in (
        (r"k?x?l?ubuntu", "ubuntu"),
        (r"debian", "debian"),
        (r"centos", "centos"),
        (r"red ?hat|rhel", "rhel"),
        (r"fedora", "fedora"),
        (r"suse linux enterprise[a-z ]*|sles", "sles"),
        (r"opensuse(?: leap| tumbleweed)?", "opensuse"),
        (r"linux ?mint|\bmint", "linuxmint"),
        (r"manjaro", "manjaro"),
        (r"\barch(?: linux)?\b", "arch"),
        (r"gentoo", "gentoo"),
        (r"alma ?linux", "almalinux"),
        (r"rocky(?: linux)?", "rocky"),
        (r"pop!?[_ ]?os", "pop"),
        (r"kali", "kali"),
        (r"nixos", "nixos"),
        (r"amazon linux|amzn", "amzn"),
        (r"oracle linux", "ol"),
        (r"elementary", "elementary"),
    )
)
_LINUX = re.compile(r"linux|jetpack|l4t|\bgnu\b", re.IGNORECASE)
_WINDOWS = re.compile(r"\bwindows|\bwin ?(?:\d|xp|server)|\bwin\b", re.IGNORECASE)
_MACOS = re.compile(r"mac ?os|os ?x\b|\bosx|darwin|\bmac\b", re.IGNORECASE)
_VERSION = re.compile(r"[a-z()/:.\" -]{0,40}?(\d{1,5}(?:\.\d{1,2}){0,2})", re.IGNORECASE)
_PLATFORM = re.compile(
    r"linux-(?P<kernel>\d\S{0,80}?)-(?P<machine>x86_64|aarch64|ppc64le)-with-(?:glibc(?P<glibc>\d+\.\d+))?",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class OsName:
    """What a name tells, in the words of facts.Host; None for what it does not tell."""

    os: str | None = None
    distribution_id: str | None = None
    distribution_version: str | None = None
    kernel: str | None = None
    machine: str | None = None
    libc: str | None = None


def name(text: str) -> OsName:
    """Read a name as people write it, or the output of platform.platform()."""
    text = text[:LONGEST]
    wsl = re.search(r"wsl|microsoft-standard", text, re.IGNORECASE) is not None
    if printed := _PLATFORM.search(text):
        libc = f"glibc {printed['glibc']}" if printed["glibc"] else None
        kernel, machine = printed["kernel"], printed["machine"]
        return OsName(os="wsl2" if wsl else "linux", kernel=kernel, machine=machine, libc=libc)
    for pattern, identifier in _DISTRIBUTIONS:
        if found := pattern.search(text):
            version = _VERSION.match(text[found.end() :])
            windows = wsl or _WINDOWS.search(text) is not None
            return OsName("wsl2" if windows else "linux", identifier, version[1] if version else None)
    if wsl:
        return OsName("wsl2")
    for pattern, system in ((_WINDOWS, "windows"), (_MACOS, "macos"), (_LINUX, "linux")):
        if pattern.search(text):
            return OsName(system)
    return OsName()
