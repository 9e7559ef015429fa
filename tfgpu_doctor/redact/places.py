"""Where programs print names of users, hosts, jobs and projects. Pure.

What is found in such a place is learned, and replaced wherever it stands.
"""

from __future__ import annotations

import re

from tfgpu_doctor.redact.addresses import PUBLIC_HOSTS, is_full_name
from tfgpu_doctor.redact.remotes import is_server
from tfgpu_doctor.redact.shapes import Match, Shape, Shapes, shape

_I, _M = re.IGNORECASE, re.MULTILINE
_NAME = r"\\*[\"']?([^\W_][\w.-]*)"
_USER = r"[^\W\d][\w.-]*"
_HOST = r"[^\W\d_][\w.-]*"
_BEFORE = r"(?<![\w.+@/-])"
_INTERFACE = (
    r"(?:eth|ibs?|hsn|bond|br|lo|docker|wlan|mlx\d_|roce|veth|tun|tap|cni|team|virbr)\d*(?:\.\d+)?|en[opsx][0-9a-fosx]*"
)
_POD = r"[bcdfghjklmnpqrstvwxz2456789]"  # the letters of generated names in Kubernetes


def _is_private_host(match: Match) -> bool:
    return not PUBLIC_HOSTS.search(match[1])


def _is_share(match: Match) -> bool:
    return is_server(match[1], match.string[max(0, match.start() - 200) : match.end()])


def _is_pod(match: Match) -> bool:
    end = match[1].rpartition("-")[2]
    return any(char.isdecimal() for char in end) and any(char.isalpha() for char in end)


_HOSTS: tuple[Shape, ...] = (
    shape(
        "host",
        "host node computer",
        r"\b(?:for host|hostname|host[_ ]name|node[_ ]?name|computer ?name|nodelist|submit_host)"
        rf"\\*[\"']?\s*[:=]\s*{_NAME}",
        _I,
    ),
    shape("host", "host", rf"\b(?:resolve host(?:name)?:?|connect to host|host key for|known host)\s+{_NAME}", _I),
    shape(
        "host",
        "host= nodelist= nodename= addr=",
        rf"(?:SLURM\w{{0,20}}_NODELIST|SLURMD_NODENAME|SLURM_SUBMIT_HOST|SLURM_TOPOLOGY_ADDR|HOST)=\s*{_NAME}",
    ),
    shape("host", "linux␣", r"\bLinux ([^\W\d_][\w.-]*) \d+\.\d+\.\d+\S* #\d"),  # uname -a
    # syslog, with its own time or an ISO one
    shape("host", ":", r"\b[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d ([\w.-]+) [\w.\[\]()/-]{1,80}:"),
    shape(
        "host",
        "t z +",
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[.,\d]{0,10}(?:Z|[+-]\d\d:?\d\d) ([^\W\d_][\w.-]*) "
        r"[\w.()/-]{1,80}(?:\[\d+\])?: ",
    ),
    shape(
        "host",
        "srun: slurmstepd: salloc: sbatch:",
        r"\b(?:srun|slurmstepd|salloc|sbatch): (?:error|Warning)?:? ?(?:\*\*\* )?([^\W\d_][\w-]{0,80}\d[\w-]{0,80}):",
    ),
    # prompts: [ada@node7 ~]$, ada@node7:~/code$, ada@node7 ~ %
    shape("host", "@", r"\[[\w.-]{1,80}@([\w-][\w.-]*) [^\]\n]{0,300}\][$#]"),
    shape("host", "@", rf"{_BEFORE}{_USER}@({_HOST}):[~/]", 0, _is_private_host),
    shape("host", "@", rf"{_BEFORE}{_USER}@({_HOST}) [~/][^\s%$#>]{{0,300}} ?[%$#>](?:\s|$)", _M, _is_private_host),
    shape(
        "host",
        "ssh scp sftp rsync mosh",
        rf"\b(?:ssh|scp|sftp|rsync|sshfs|mosh|autossh|ssh-copy-id)(?:[ \t]+(?!\S*@)\S+){{0,8}}?[ \t]+{_USER}@({_HOST})",
        0,
        _is_private_host,
    ),
    shape("host", "nccl", r"(?<![\w.-])([^\W\d_][\w.-]*):\d+:\d+ \[\d+\] NCCL"),
    shape("host", "desktop- laptop-", r"\b((?:DESKTOP|LAPTOP)-[A-Z0-9]{5,8})\b"),
    shape("host", "ip-", r"\b(ip-\d{1,3}-\d{1,3}-\d{1,3}-\d{1,3}(?:\.[\w.-]+)?)"),
    shape("host", "machine", r"\bmachine[ \t]+([\w.-]+)(?:[ \t]+login\b|[ \t]*$)", _I | _M),  # .netrc
    # full names: gpu7.cs.example.edu
    shape(
        "host",
        ".",
        r"(?<![\w./-])([A-Za-z0-9][\w-]*(?:\.[\w-]+)+)(?![\w(-])",
        0,
        lambda match: is_full_name(match[1]),
    ),
    shape(
        "host",
        ".internal .svc .home.arpa",
        r"(?<![\w./-])([\w-]+(?:\.[\w-]+)*\.(?:home\.arpa|compute\.internal|ec2\.internal|svc|c\.[\w-]+\.internal))"
        r"(?![\w(/.-])",
    ),
    shape("host", ":/", r"(?<![\w./:@\\-])([A-Za-z][\w.-]*\w)(?:@(?:tcp|o2ib)\d?)?:/(?=[A-Za-z0-9])", 0, _is_share),
)
_USERS: tuple[Shape, ...] = (
    shape(
        "user",
        "user logname owner",
        rf"(?<![A-Za-z])(?:USER|LOGNAME|USERNAME|SLURM_JOB_USER|SUDO_USER|username|user name|owner)\\*[\"']?\s*[:=]\s*"
        rf"\\*[\"']?({_USER})",
    ),
    shape("user", "user", rf"(?<![A-Za-z])user(?:=|\\?[\"']\s*:\s*\\?[\"'])({_USER})"),
    shape("user", "@", rf"\[({_USER})@[\w-][\w.-]* [^\]\n]{{0,300}}\][$#]"),
    shape("user", "@", rf"{_BEFORE}({_USER})@{_HOST}:[~/]"),
    shape("user", "@", rf"{_BEFORE}({_USER})@{_HOST} [~/][^\s%$#>]{{0,300}} ?[%$#>](?:\s|$)", _M),
    shape(
        "user",
        "ssh scp sftp rsync mosh",
        rf"\b(?:ssh|scp|sftp|rsync|sshfs|mosh|autossh|ssh-copy-id)(?:[ \t]+(?!\S*@)\S+){{0,8}}?[ \t]+({_USER})@{_HOST}",
    ),
    shape("user", "~", r"(?<![\w.~/<>=!])~([A-Za-z_][\w.-]*)(?=[/\\])"),  # ~ada/x
    shape("user", "login", r"\blogin[ \t]+([\w.@-]+)(?=[ \t]+password\b|[ \t]*$)", _I | _M),  # .netrc
    shape("user name", "logged", rf"logged in as:?\s+({_USER})(?:\s+\(([\w-]+)\))?", _I),
    shape("user", "uid= gid=", rf"\b[ug]id=\d+\(({_USER})\)"),  # id
    shape("user", "rw", rf"(?<![^\s\"'])[-dlcbps][rwxsStT-]{{9}}[.+@]?\s+\d+\s+({_USER})\s+(?:{_USER})\s"),  # ls -l
    shape("user", "(", rf"(?<=[|\s])({_USER})(?::\w+)?(?:/\d+)?\(\d+M\)"),  # gpustat
    shape("user", "sudo su␣", rf"\b(?:sudo(?:[ \t]+-[A-Za-z]{{1,9}}){{0,4}}?[ \t]+-u|su -) ({_USER})"),
    shape(
        "user",
        "\\",
        rf"(?i:user(?:name)?|owner|account|logged in as|runas /user)(?: ?[:=])? ?[A-Z][A-Z0-9-]{{1,14}}\\+({_USER})",
    ),
)
_NAMES: tuple[Shape, ...] = (
    shape(
        "name",
        "slurm_",
        r"\bSLURM_(?:JOB_NAME|JOB_ACCOUNT|JOB_PARTITION|CLUSTER_NAME|JOB_QOS)\s*[:=]\s*[\"']?([A-Za-z0-9][\w.-]*)",
    ),
    shape(
        "name",
        "--",
        r"(?<!\S)--(?:account|partition|reservation|qos|project|job-name|namespace|entity)[= ]\\*[\"']?"
        r"([A-Za-z0-9][\w.-]*)",
    ),
    shape("name", "kubectl helm oc␣", r"\b(?:kubectl|helm|oc)\b[^\n]{0,100}? -n[ =]([a-z0-9][a-z0-9-]*)"),
    shape("name", "pod", r"\bpods?/([a-z0-9][a-z0-9.-]+)"),
    shape(
        "name",
        "pod_name namespace",
        r"\b(?:POD_NAME|POD_NAMESPACE|namespace|Namespace|NAMESPACE)\\*[\"']?\s*[:=]\s*\\*[\"']?([a-z0-9][a-z0-9.-]+)",
    ),
    shape("name", "pod", r"\bpods? \\?\"([a-z0-9][a-z0-9./-]+)\\?\"", _I),
    # pods without a label: deployment-<hash>-<hash>, job-0-<hash>, set-of-a-daemon-<hash>
    shape(
        "name", "-", rf"(?<![\w./-])([a-z0-9][a-z0-9-]*-(?:{_POD}{{8,10}}|\d{{1,3}})-{_POD}{{5}})(?![\w-])", 0, _is_pod
    ),
    shape("name", "-", rf"(?<![\w./-])([a-z][a-z0-9]*-[a-z0-9-]*[a-z0-9]-{_POD}{{5}})(?![\w.-])", 0, _is_pod),
    # options of mount.cifs, and of Samba
    shape(
        "name",
        "domain= dom= workgroup=",
        r"(?<![\w.-])(?:domain|dom|workgroup)=[\"']?([A-Za-z][\w.-]*)(?=[,;\s\"']|$)",
        _I,
    ),
    shape("name", "accountname", r"\bAccountName=([^\s;\"'<]+)", _I),  # Azure
    shape(
        "name",
        "user data␣source server=",
        r"(?<![\w-])(?:User ?Id|Uid|Data Source|Server|Database)=([^\s;\"'<=]+)(?=;)",
        _I,
    ),
    shape(
        "name",
        "project",
        r"(?:project_id|GOOGLE_CLOUD_PROJECT|GCP_PROJECT|CLOUDSDK_CORE_PROJECT|WANDB_PROJECT|COMET_PROJECT_NAME)"
        r"\\*[\"']?\s*[=:]\s*\\*[\"']?([\w.-]+)",
    ),
    shape(
        "name",
        "wandb_entity comet_workspace kaggle_username",
        r"(?:WANDB_ENTITY|COMET_WORKSPACE)\s*[=:]\s*[\"']?([\w.-]+)",
    ),
    # network interfaces have names of a kind; another one is an own name
    shape(
        "name",
        "ifname",
        rf"_IFNAME(?:\s*[=:]\s*|\s+set by environment to\s+)[\"']?[\^=]?"
        rf"(?!(?:{_INTERFACE})(?:,(?:{_INTERFACE}))*(?![\w.,-]))([A-Za-z][\w.,-]*)",
    ),
)
# in this order: what is a user is no host
PLACES = Shapes((*_USERS, *_HOSTS, *_NAMES))
