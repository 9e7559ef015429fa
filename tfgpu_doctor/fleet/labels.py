"""What tools put before the lines of many nodes, and what they say of a node in lines of their own. Pure.

Where the forms come from: srun, src/common/write_labelled_message.c of Slurm; kubectl, `addPrefixIfNeeded` of its logs
command; Ray, `print_worker_logs`; pdsh 2.34, dshbak and ClusterShell 1.10 as they print; Ansible 2.19, its callbacks
minimal, oneline and default; Open MPI and PRRTE, `--tag-output`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

NAME = rb"[A-Za-z0-9_][\w.-]{0,252}"
_LABEL = re.compile(
    rb"\[pod/(?P<pod>[\w.-]{1,253})(?:/[\w.-]{1,253})?\] "  # kubectl logs --prefix
    rb"|\([^()\n]{0,200}pid=\d{1,9}(?:, ip=(?P<ip>[\w.:-]{1,100}))?\) "  # Ray
    rb"|[ ]{0,9}(?P<task>\d{1,9}): "  # srun --label
    rb"|\[\d{1,9},(?P<rank>\d{1,9})\]<std(?:out|err)>:(?: (?=\S))?"  # mpirun --tag-output
    rb"|(?P<node>" + NAME + rb"): "  # pdsh, clush
    rb"|(?P<service>" + NAME + rb") {1,40}\| "  # docker compose
)
_NO_NAMES = (None, "task", "rank", "ip")  # groups that are no name of a node
_TIME = re.compile(rb"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S{0,30} ")  # kubectl logs --timestamps
_COLOUR = re.compile(rb"\x1b\[[\d;]{0,20}m")
_AD_HOC = re.compile(
    rb"(?P<host>[^\s|]{1,253}) \| (?P<how>[A-Z]{4,20})!? ?"
    rb"(?:\| rc=(?P<rc>-?\d{1,5}) (?P<then>>>|\| \(stdout\) ?)|=> ?|:)"
)
_PLAY = re.compile(
    rb"(?:ok|changed|fatal|failed|unreachable): \[(?P<host>[^\s\]]{1,253})(?: -> [^\]\n]{1,253})?\]:? ?"
    rb"(?:(?P<how>[A-Z]{4,20})! )?=> ?"
)
_SLURM = re.compile(
    rb"(?:[ ]{0,9}\d{1,9}: )?srun: error: (?:(?P<node>" + NAME + rb"): tasks? [\d,-]{1,200}: (?P<how>[A-Z][^\n]{0,99})"
    rb"|Node failure on (?P<failed>" + NAME + rb"))"
)
_SHELL = re.compile(  # pdsh@HERE: NODE: ssh exited with exit code 255; clush: NODE: command timeout
    rb"(?P<tool>pdsh)(?:@[\w.-]{1,253})?: (?P<node>" + NAME + rb"): (?P<how>[^\n]{1,200})"
    rb"|(?P<other>clush): (?P<several>[\w.,\[\]-]{1,253})(?: \(\d{1,9}\))?: (?P<why>[^\n]{1,200})"
)
_RULE = re.compile(rb"-{8,}\s*")
_SECTION = re.compile(
    rb"([\w.,\[\]-]{1,253})(?: \(\d{1,9}\))?"
)  # a node between rules, or several that printed the same
_IN_ONE_LINE = re.compile(rb'("(?:[^"\\]|\\.)*")|\\n|\\r')  # the line breaks that ansible -o writes as two characters
_LEFT_OUT = re.compile(rb" \[repeated \d{1,9}x across cluster\]")
_NODES = re.compile(r"(?:[\w.-]|\[[0-9,-]{1,250}\])+")  # "r[1-2]n[08-10,12]"
_PIECE = re.compile(r"([\w.-]+)|\[([0-9,-]+)\]")
_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")
_MOST_FOLDED = 20_000  # nodes


class Label(NamedTuple):
    """What stands before a line."""

    key: bytes  # the label itself, without a time
    prefix: bytes  # all that stands before the content
    name: str
    is_name: bool  # of a node, and not its address or the number of a task


class Said(NamedTuple):
    """What a tool says of a node."""

    node: str = ""
    problem: str = ""  # why it gave no answer; a result of it counts for more
    text: bytes = b""  # what it printed, which stands on the same line
    heads: bool = False  # what comes next is of this node


_NONE = Label(b"", b"", "", False)


def plain(line: bytes) -> bytes:
    """A line without colours."""
    return _COLOUR.sub(b"", line) if b"\x1b" in line else line


def label_of(line: bytes) -> Label:
    """What stands before a line, and before the time that may follow it."""
    found = _LABEL.match(line)
    end = found.end() if found else 0
    time = _TIME.match(line, end)
    if found is None:
        return Label(b"", time[0], "", False) if time else _NONE
    kind = found.lastgroup
    return Label(
        found[0], line[: time.end() if time else end], text(found[kind]) if kind else "", kind not in _NO_NAMES
    )


def without_count(content: bytes) -> bytes | None:
    """What Ray printed once in place of lines that differ in their numbers alone; None: the line is no such one."""
    if b"x across cluster]" not in content or content[:1] not in (b" ", b"{", b"}", b"[", b"]", b'"'):
        return None
    found = _LEFT_OUT.search(content)
    return content[: found.start()] if found else None


def unfolded(names: str, most: int = _MOST_FOLDED) -> list[str]:
    """Return the nodes of a list as ClusterShell and Slurm fold it, at most so many.

    >>> unfolded("gpu-[08-09,11],r[1-2]n[0-1],login")
    ['gpu-08', 'gpu-09', 'gpu-11', 'r1n0', 'r1n1', 'r2n0', 'r2n1', 'login']
    """
    found: list[str] = []
    for one in _NODES.findall(names):
        nodes = [""]
        for word, ranges in _PIECE.findall(one):
            ends = [word] if word else list(islice(_padded(ranges), most))
            nodes = list(islice((node + end for node in nodes for end in ends), most))
        found += nodes
        if len(found) >= most:
            break
    return found[:most]


def _padded(ranges: str) -> Iterator[str]:
    """ "08-09,11" → 08, 09, 11."""
    for first, last in _RANGE.findall(ranges):
        yield from (f"{number:0{len(first)}}" for number in range(int(first), int(last or first) + 1))


def is_rule(line: bytes) -> bool:
    """A line of dashes."""
    return line[:8] == b"--------" and _RULE.fullmatch(line) is not None


def section_of(line: bytes) -> str:
    """The name between two rules, as dshbak and clush -b print it; empty: it is none."""
    found = _SECTION.fullmatch(line.strip())
    return text(found[1]) if found else ""


def said(line: bytes) -> Said | None:
    """What a tool says of a node in a line of its own; None where it says nothing."""
    begin = line[:600]
    if b" | " in begin and (found := _AD_HOC.match(line)):
        return _ad_hoc(found, line)
    if b"=>" in begin and (found := _PLAY.match(line)):
        return _of_ansible(text(found["host"]), found["how"] or b"", line[found.end() :])
    if b"srun: error: " in begin and (found := _SLURM.search(begin)):
        if found["failed"]:
            return Said(text(found["failed"]), "Slurm reports that the node failed")
        return Said(text(found["node"]), f"Slurm: {text(found['how'])}")
    if begin[:5] in (b"pdsh@", b"pdsh:", b"clush") and (found := _SHELL.match(line)):
        how, name = (found["how"], found["node"]) if found["tool"] else (found["why"], found["several"])
        return Said(text(name), f"{text(found['tool'] or found['other'])}: {text(how)}")
    return None


def _ad_hoc(found: re.Match[bytes], line: bytes) -> Said:
    """A header of the commands `ansible` and `ansible -o`."""
    host, code, then = text(found["host"]), text(found["rc"] or b""), found["then"] or b""
    failed = f"its command ended with exit code {code}, and printed no report" if code not in ("", "0") else ""
    if then.startswith(b"|"):
        printed, _, _ = line[found.end() :].partition(b" (stderr) ")
        printed = _IN_ONE_LINE.sub(lambda part: part[1] or b"\n", printed).strip()
        return Said(host, "" if printed[:1] == b"{" else failed, printed)
    if then:
        return Said(host, failed, heads=True)
    return _of_ansible(host, found["how"], line[found.end() :])


def _of_ansible(host: str, how: bytes, rest: bytes) -> Said:
    if how == b"UNREACHABLE":
        return Said(host, "Ansible could not reach it")
    return Said(host, "its command failed, and printed no report" if how == b"FAILED" else "", rest.strip(), heads=True)


def text(data: bytes) -> str:
    """For messages and names."""
    return data.decode("utf-8", "replace")
