"""deploy/kubernetes: the manifests by the published schemas, the script by the real kubectl and a made-up server."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import kubernetes_validate
import pytest
import yaml

from tests.fleet.test_collect import REPORT as SAVED
from tests.fleet.test_collect import program
from tests.healthy import MATRIX
from tfgpu_doctor.fleet.collect.task import line, node_result
from tfgpu_doctor.fleet.fleet import judge_fleet
from tfgpu_doctor.fleet.reading import Gathering

FOLDER = Path(__file__).parents[2] / "deploy/kubernetes"
FILLED = {"@RUN@": "r1", "@NODE@": "gpu-1.example", "@IMAGE@": "registry.example/tfgpu:1", '"@GPUS@"': "8"}
# the oldest that a cluster of today may have, and the newest that the schemas are here of
VERSIONS = ["1.28", kubernetes_validate.latest_version()]


def filled(name: str, words: str = '"doctor"') -> dict[str, Any]:
    text = (FOLDER / name).read_text(encoding="utf-8").replace('"@WORDS@"', words)
    for word, value in FILLED.items():
        text = text.replace(word, value)
    assert "@" not in text
    (found,) = yaml.safe_load_all(text)
    return found


MANIFESTS = {name: filled(name) for name in ("job.yaml", "daemonset.yaml")}
MANIFEST = pytest.mark.parametrize("manifest", MANIFESTS.values(), ids=MANIFESTS)


@MANIFEST
@pytest.mark.parametrize("version", VERSIONS)
def test_manifests_follow_the_published_schemas(manifest: dict[str, Any], version: str) -> None:
    kubernetes_validate.validate(manifest, version, strict=True)


def test_the_schemas_refuse_what_is_wrong() -> None:
    manifest = filled("job.yaml")
    manifest["spec"]["template"]["spec"]["containers"][0]["securityContext"]["readOnlyRootFileSystem"] = True
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(manifest, VERSIONS[-1], strict=True)


@MANIFEST
def test_pods_keep_to_the_restricted_profile(manifest: dict[str, Any]) -> None:
    """kubernetes.io/docs/concepts/security/pod-security-standards, "Restricted", and a read-only root."""
    pod = manifest["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] and pod["securityContext"]["runAsUser"] > 0
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is False
    assert not pod.keys() & {"hostNetwork", "hostPID", "hostIPC"}
    assert all(volume.keys() == {"name", "emptyDir"} and volume["emptyDir"]["sizeLimit"] for volume in pod["volumes"])
    names = {volume["name"] for volume in pod["volumes"]}
    for container in pod["containers"]:
        context = container["securityContext"]
        assert context == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert {"cpu", "memory"} <= container["resources"]["limits"].keys() & container["resources"]["requests"].keys()
        assert {mount["name"] for mount in container["volumeMounts"]} <= names


@MANIFEST
def test_labels_select_the_pods(manifest: dict[str, Any]) -> None:
    labels = manifest["spec"]["template"]["metadata"]["labels"]
    assert manifest["metadata"]["labels"].items() <= labels.items()
    assert manifest["spec"].get("selector", {}).get("matchLabels", {}).items() <= labels.items()


def test_who_requests_gpus() -> None:
    job, daemon = (MANIFESTS[name]["spec"]["template"]["spec"] for name in ("job.yaml", "daemonset.yaml"))
    assert job["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == 8
    assert daemon["runtimeClassName"] == "nvidia"
    doctor, metrics = daemon["containers"]
    assert all("nvidia.com/gpu" not in json.dumps(one["resources"]) for one in (doctor, metrics))
    shows = {one["name"]: one.get("value") for one in doctor["env"]}
    assert (shows["NVIDIA_VISIBLE_DEVICES"], shows["NVIDIA_DRIVER_CAPABILITIES"]) == ("all", "compute,utility")


def commands() -> Iterator[list[str]]:
    script = MANIFESTS["daemonset.yaml"]["spec"]["template"]["spec"]["containers"][0]["command"][2]
    yield from (line.split() for line in script.splitlines() if line.strip().startswith("tfgpu"))


def test_what_pods_run_is_understood(subtests: pytest.Subtests) -> None:
    for words in list(commands()):
        with subtests.test(words=words):
            from tests.cli.runner import tfgpu

            done = tfgpu(*[word.replace("/metrics/", os.environ["TMPDIR"] + "/") for word in words[1:]])
            file = Path(os.environ["TMPDIR"]) / "metrics.txt"
            assert done.returncode in (0, 1) and file.read_text().startswith("# HELP tfgpu_doctor_")
            file.unlink()


PRINTED = {
    "a report": ("cat report.json; exit 1", "ok"),
    "nothing": ("exit 2", "no answer"),
    "half of it": ("head -c 1000 report.json", None),
}


def test_a_pod_prints_one_line(tmp_path_factory: pytest.TempPathFactory, subtests: pytest.Subtests) -> None:
    """The script of the manifest, with a stand-in for tfgpu; the name is that of the node, not that of the pod."""
    for name in ["job.yaml", "daemonset.yaml"]:
        for printed in PRINTED:
            with subtests.test(name=name, printed=printed):
                tmp_path = tmp_path_factory.mktemp("row")
                (tmp_path / "report.json").write_bytes(SAVED)
                does, verdict = PRINTED[printed]
                program(
                    tmp_path / "tfgpu", f'#!/bin/sh\ncase "$*" in *metrics*) exit 0 ;; esac\ncd {tmp_path}\n{does}\n'
                )
                container = MANIFESTS[name]["spec"]["template"]["spec"]["containers"][0]
                script = container["command"][2].replace("sleep 600 & wait", "exit 0")
                environ = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "NODE_NAME": "gpu-1.example"}
                words = ["sh", "-c", script, *container["command"][3:], *container.get("args", ())]
                text = subprocess.run(words, env=environ, capture_output=True, timeout=60, check=True).stdout
                assert text.count(b"\n") == 1 and text.startswith(b'{"schema":"tfgpu.node/1",')
                gathering = Gathering()
                gathering.take_file(text, "nodes.jsonl")
                found = judge_fleet(gathering.gathered(), MATRIX, "2026-11-28T00:00:00Z")
                assert [(one.name, one.verdict) for one in found.nodes] == (
                    [("gpu-1.example", verdict)] if verdict else []
                )
                assert bool(found.unreadable) == (verdict is None)


# ------------------------------------------------------------------------------------------------ the real kubectl

REPORT = line(node_result("gpu-1", [b"{", b'"schema": "tfgpu.report/1"', b"}"]))
FAILED = line(node_result("gpu-4", [], "did not answer within 120 s"))
# node → the conditions of its job in the end, and the log of its pod
FATES = {
    "gpu-1": ([{"type": "SuccessCriteriaMet"}, {"type": "Complete"}], "module loaded\n" + REPORT),
    "gpu-2": ([{"type": "FailureTarget"}, {"type": "Failed", "reason": "DeadlineExceeded"}], None),
    "gpu-3": ([{"type": "Failed", "reason": "BackoffLimitExceeded"}], "exec: tfgpu: not found\n"),
    "gpu-4": ([{"type": "Failed", "reason": "BackoffLimitExceeded"}], FAILED),
}

# by which kubectl knows that the server validates
JOB = "/apis/batch/v1/namespaces/{namespace}/jobs/{name}"
VALIDATES = {
    "parameters": [{"name": "fieldValidation", "in": "query"}],
    "x-kubernetes-group-version-kind": {"group": "batch", "version": "v1", "kind": "Job"},
    "responses": {},
}


def resource(name: str, kind: str, namespaced: bool) -> dict[str, Any]:
    verbs = ["create", "delete", "deletecollection", "get", "list"]
    return {"name": name, "singularName": kind.lower(), "kind": kind, "namespaced": namespaced, "verbs": verbs}


class Server(ThreadingHTTPServer):
    """As much of the API of Kubernetes as the script uses."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.jobs: dict[str, dict[str, Any]] = {}
        self.looks = 0
        self.deleted: list[str] = []
        self.requests: list[str] = []

    def answer(self, method: str, path: str, query: dict[str, list[str]], body: bytes) -> Any:
        group = {"groupVersion": "batch/v1", "version": "v1"}
        match method, path.strip("/").split("/"):
            case "GET", ["api"]:
                return {"kind": "APIVersions", "versions": ["v1"]}
            case "GET", ["apis"]:
                groups = [{"name": "batch", "versions": [group], "preferredVersion": group}]
                return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
            case "GET", ["api", "v1"]:
                found = [resource("nodes", "Node", False), resource("pods", "Pod", True)]
                return {"kind": "APIResourceList", "groupVersion": "v1", "resources": found}
            case "GET", ["apis", "batch", "v1"]:
                found = [resource("jobs", "Job", True)]
                return {"kind": "APIResourceList", "groupVersion": "batch/v1", "resources": found}
            case "GET", ["openapi", "v3"]:
                return {"paths": {"apis/batch/v1": {"serverRelativeURL": "/openapi/v3/apis/batch/v1"}}}
            case "GET", ["openapi", "v3", "apis", "batch", "v1"]:
                return {"openapi": "3.0.0", "info": {"title": "", "version": ""}, "paths": {JOB: {"patch": VALIDATES}}}
            case "GET", ["api", "v1", "nodes"]:
                asked = query["labelSelector"] == ["nvidia.com/gpu.present=true"]
                nodes = [self.named("Node", name) for name in FATES if asked]
                return {"kind": "NodeList", "apiVersion": "v1", "metadata": {}, "items": nodes}
            case "POST", ["apis", "batch", "v1", "namespaces", "default", "jobs"]:
                job = json.loads(body)
                job["metadata"] |= {
                    "name": f"{job['metadata']['generateName']}{len(self.jobs)}",
                    "namespace": "default",
                }
                self.jobs[job["metadata"]["annotations"]["tfgpu/node"]] = job
                return job
            case "GET", ["apis", "batch", "v1", "namespaces", "default", "jobs"]:
                self.looks += 1
                return self.list_of("JobList", "batch/v1", map(self.seen, self.jobs), query)
            case "GET", ["api", "v1", "namespaces", "default", "pods"]:
                pods = (self.pod(name) for name in self.jobs if FATES[name][1] is not None)
                return self.list_of("PodList", "v1", pods, query)
            case "GET", ["api", "v1", "namespaces", "default", "pods", pod, "log"]:
                return FATES[pod][1]
            case "DELETE", ["apis", "batch", "v1", "namespaces", "default", "jobs", name]:
                self.deleted.append(name)
                return {"kind": "Status", "apiVersion": "v1", "status": "Success"}
        return None

    def named(self, kind: str, name: str) -> dict[str, Any]:
        return {"kind": kind, "apiVersion": "v1", "metadata": {"name": name}}

    def seen(self, name: str) -> dict[str, Any]:
        """A job as it is now: it takes a while."""
        conditions = [{**one, "status": "True"} for one in FATES[name][0]]
        return {**self.jobs[name], "status": {"conditions": conditions} if self.looks > 2 else {}}

    def pod(self, name: str) -> dict[str, Any]:
        template = self.jobs[name]["spec"]["template"]
        return {
            **self.named("Pod", name),
            **template,
            "metadata": {**template["metadata"], "name": name, "namespace": "default"},
        }

    def list_of(self, kind: str, version: str, items: Any, query: dict[str, list[str]]) -> dict[str, Any]:
        key, value = query["labelSelector"][0].split("=")
        found = [one for one in items if one["metadata"]["labels"][key] == value]
        return {"kind": kind, "apiVersion": version, "metadata": {}, "items": found}


class Handler(BaseHTTPRequestHandler):
    server: Server

    def reply(self) -> None:
        url = urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.requests.append(f"{self.command} {self.path}")
        found = self.server.answer(self.command, url.path, parse_qs(url.query), body)
        data = (
            found.encode() if isinstance(found, str) else json.dumps(found or {"kind": "Status", "code": 404}).encode()
        )
        self.send_response(404 if found is None else 200)
        self.send_header("Content-Type", "text/plain" if isinstance(found, str) else "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = do_DELETE = reply

    def log_message(self, *arguments: Any) -> None:
        """Nothing."""


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Server]:
    if shutil.which("kubectl") is None:
        pytest.skip("no kubectl")
    server = Server()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    url = f"http://127.0.0.1:{server.server_port}"
    cluster = {
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "contexts": [{"name": "c", "context": {"cluster": "c"}}],
    }
    (tmp_path / "config").write_text(
        json.dumps({"apiVersion": "v1", "kind": "Config", "current-context": "c", **cluster})
    )
    yield server
    server.shutdown()
    server.server_close()


def collect(folder: Path, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder), "KUBECONFIG": str(folder / "config"), **environ}
    return subprocess.run(
        [FOLDER / "collect.sh", *arguments],
        env={**environ, "TFGPU_INTERVAL": "0.1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_collecting_with_kubectl(api: Server, tmp_path: Path) -> None:
    done = collect(tmp_path, "registry.example/tfgpu:1", "8", "smoke", "--require-gpus=8")
    assert done.returncode == 1, done.stderr + "\n".join(api.requests)
    gathering = Gathering()
    gathering.take_file(done.stdout.encode(), "nodes.jsonl")
    lines = [json.loads(one) for one in done.stdout.splitlines()]
    assert {one["node"]: one["failure"] for one in lines} == {
        "gpu-1": None,
        "gpu-2": "its pod did not start, or did not end, within an hour",
        "gpu-3": "its pod wrote no result (BackoffLimitExceeded)",
        "gpu-4": "did not answer within 120 s",
    }
    assert len(api.jobs) == len(api.deleted) == len(FATES) == len(lines)
    assert "collect.sh: waiting for 4 nodes\n" in done.stderr
    for name, job in api.jobs.items():
        kubernetes_validate.validate(job, VERSIONS[-1], strict=True)
        pod = job["spec"]["template"]["spec"]
        (term,) = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
        assert term["matchFields"] == [{"key": "metadata.name", "operator": "In", "values": [name]}]
        assert pod["containers"][0]["args"][-2:] == ["smoke", "--require-gpus=8"]
        assert pod["containers"][0]["image"] == "registry.example/tfgpu:1"


def test_collecting_without_nodes(api: Server, tmp_path: Path) -> None:
    done = collect(tmp_path, "tfgpu", "8", NODE_LABEL="gpu=yes")
    assert (done.returncode, done.stdout) == (3, "")
    assert "collect.sh: no node has the label gpu=yes\n" in done.stderr


def test_wrong_usage(tmp_path_factory: pytest.TempPathFactory, subtests: pytest.Subtests) -> None:
    for arguments, message in [
        ((), "an image and a number of GPUs are needed"),
        (("tfgpu", "all"), "all is no number of GPUs"),
        (("tfgpu", "8", "doctor", 'a"b'), 'a"b has a character that cannot be passed on'),
        (("tfgpu; x", "8"), "tfgpu; x has a character that cannot be passed on"),
    ]:
        with subtests.test(arguments=arguments):
            tmp_path = tmp_path_factory.mktemp("row")
            done = collect(tmp_path, *arguments)
            assert (done.returncode, done.stdout) == (2, "")
            assert done.stderr == f"collect.sh: {message}; usage: collect.sh IMAGE GPUS [COMMAND...]\n"
            assert re.search(r"(?m)^#     collect.sh IMAGE GPUS \[COMMAND...\]", (FOLDER / "collect.sh").read_text())
