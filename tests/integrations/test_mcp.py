"""`tfgpu mcp`, asked by the official client over standard input and output."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import jsonschema
import mcp_types as types
import psutil
import pytest
from mcp import Client, StdioServerParameters, stdio_client
from mcp.server.mcpserver.exceptions import ToolError

from tests.cli.hostile import BOMB, offences, texts
from tests.cli.runner import matrix_read_once, tfgpu
from tests.guard import guarded
from tests.healthy import MATRIX, healthy
from tests.tables import each, read_rows
from tfgpu_doctor.integrations.mcp import server
from tfgpu_doctor.integrations.mcp.server import LONGEST, Tools, make_server
from tfgpu_doctor.plan.diagnosis import make_report

NO_DEVICE = "Failed to initialize NVML: Driver/library version mismatch"
PRIVATE = (
    "Could not load dynamic library 'libcudart.so.11.0'; dlerror: libcudart.so.11.0: cannot open shared object file: "
    "No such file or directory; LD_LIBRARY_PATH: /home/jdoe42/cuda/lib64"
)
ROOT = str(Path(__file__).parents[2])
SLEEPS = os.pathsep.join([str(Path(__file__).parents[1] / "patients" / "sleeps"), ROOT])  # import tensorflow hangs
START = (sys.executable, "-m", "tfgpu_doctor", "mcp")

# a question for each tool; None where the answer is what this machine is
CALLS: dict[str, dict[str, Any]] = {
    "doctor": {"import_tensorflow": False},
    "explain": {"text": NO_DEVICE},
    "plan": {"gpu": ["RTX 3090"], "driver": "535", "python": "3.11"},
    "matrix": {"table": "tensorflow", "name": "2.15.1"},
    "check": {"files": {"requirements.txt": "tensorflow[and-cuda]==2.16.1\n"}, "python": "3.13"},
}


def talk(ask: Callable[[Client], Awaitable[None]], server: Any) -> None:
    """Let the official client ask a server: one in this process, or the transport of one that it starts and ends."""

    async def main() -> None:
        async with Client(server) as client:
            await ask(client)

    with guarded(120, "the server", waiting=True), matrix_read_once():
        anyio.run(main)


def ask(name: str, settings: tuple[Any, ...] = (), /, **arguments: Any) -> types.CallToolResult:
    """The same without a server."""

    async def main() -> types.CallToolResult:
        found = await make_server(Tools(*settings)).call_tool(name, arguments)
        assert isinstance(found, types.CallToolResult)
        return found

    with matrix_read_once():
        return anyio.run(main)


def data_of(found: types.CallToolResult) -> dict[str, Any]:
    assert not found.is_error and found.structured_content, found.content
    return found.structured_content


def text_of(found: types.CallToolResult) -> str:
    (content,) = found.content
    assert isinstance(content, types.TextContent)
    return content.text


def test_every_tool_answers_what_its_schema_says() -> None:
    async def all_tools(client: Client) -> None:
        listed = (await client.list_tools()).tools
        assert [one.name for one in listed] == list(CALLS)
        for tool in listed:
            assert tool.annotations is not None and tool.description
            assert (tool.annotations.read_only_hint, tool.annotations.open_world_hint) == (True, False)
            assert (tool.annotations.idempotent_hint, tool.annotations.destructive_hint) == (True, False)
            assert tool.output_schema is not None
            jsonschema.Draft202012Validator.check_schema(tool.input_schema)
            jsonschema.validate(CALLS[tool.name], tool.input_schema)
            found = await client.call_tool(tool.name, CALLS[tool.name])  # which validates it, too
            assert not found.is_error, found.content
            jsonschema.validate(found.structured_content, tool.output_schema)
            answers[tool.name] = found
        assert (await client.call_tool("rm", {"path": "/"})).is_error
        wrong = await client.call_tool("plan", {"gpu": ["RTX 9999"]})
        assert wrong.is_error and "unknown GPU 'RTX 9999'" in text_of(wrong)

    answers: dict[str, types.CallToolResult] = {}
    talk(all_tools, make_server(Tools()))
    found = {name: one.structured_content["result"] for name, one in answers.items() if one.structured_content}
    assert found["doctor"]["schema"] == "tfgpu.report/1"
    assert found["explain"]["verdict"] == "broken"
    assert found["plan"]["options"][0]["commands"]["pip"]
    assert found["matrix"]["rows"][0]["cuda"] == "12.2"
    assert found["check"]["report"]["findings"][0]["id"] == "tf.python-unsupported"
    assert "driver libraries have different" in text_of(answers["explain"])
    assert "python -m pip install" in text_of(answers["plan"])


HELLO = {"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
OPENING = (
    {"jsonrpc": "2.0", "method": "initialize", "id": 1, "params": HELLO},
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
)


@contextmanager
def started(*calls: tuple[str, dict[str, Any]], **variables: str) -> Iterator[subprocess.Popen[bytes]]:
    """The server, greeted as by a client of the first protocol, and asked without waiting for an answer."""
    server = subprocess.Popen(
        START,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": ROOT, **variables},
    )
    assert server.stdin and server.stdout
    with guarded(120, "the server", waiting=True), server:
        for line in OPENING:
            server.stdin.write(json.dumps(line).encode() + b"\n")
        for number, (name, arguments) in enumerate(calls, 2):
            server.stdin.write(request(number, name, arguments))
        server.stdin.flush()
        assert json.loads(server.stdout.readline())["result"]["serverInfo"]["name"] == "tfgpu"
        try:
            yield server
        finally:
            server.kill()


def request(number: int, name: str, arguments: object) -> bytes:
    call = {"jsonrpc": "2.0", "method": "tools/call", "id": number, "params": {"name": name, "arguments": arguments}}
    return json.dumps(call).encode() + b"\n"


HALVES = "\ud800 \udcff \ud83d\ud83d\ude00 \\ud800"  # the third is half of an emoji before a whole one


def test_every_message_of_a_client_of_the_first_protocol_is_answered() -> None:
    """What is no message is passed over; half an emoji in an argument, which the SDK would drop, gets an answer.

    With the input ends the server, and what it has started.
    """
    calls: list[tuple[str, dict[str, Any]]] = [
        ("check", {"files": {f"{HALVES}requirements.txt": f"tensorflow==1.99 # {HALVES}\n"}, "kind": "requirements"}),
        ("explain", {"text": f"{NO_DEVICE}\n{HALVES}"}),
        ("matrix", {"table": "tensorflow", "name": HALVES}),
        (HALVES, {}),
    ]
    with started(*calls, PYTHONPATH=SLEEPS) as server:
        assert server.stdin and server.stdout and server.stderr
        server.stdin.write(b'\xff\xfe not json\n[]\n\n"\n' + b"x" * 1_000_000 + b"\n")
        server.stdin.write(b'{"jsonrpc":"2.0","id":"\\ud800","method":"ping"}\n' + request(6, "explain", ["no object"]))
        server.stdin.flush()
        answers = {one["id"]: one for one in (json.loads(server.stdout.readline()) for _ in range(6))}
        server.stdin.write(request(7, "doctor", {"timeout": 600}))
        server.stdin.flush()
        children = examining(server)
        server.stdin.close()
        assert (server.stderr.read(), server.wait(), psutil.wait_procs(children, 60)[1]) == (b"", 0, [])
    assert set(answers) == {*range(2, 7), "\ufffd"}
    assert answers["\ufffd"]["result"] == {} and answers[6]["error"]["code"] == types.INVALID_PARAMS
    assert answers[3]["result"]["structuredContent"]["result"]["verdict"] == "broken"
    (finding,) = answers[2]["result"]["structuredContent"]["result"]["report"]["findings"]
    assert "\ufffd \ufffd \ufffd😀 \\ud800requirements.txt:1" in finding["evidence"][0]["source"]


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_it_ends_by_a_signal_and_when_nobody_reads_its_answers() -> None:
    """Other signals: tests/test_waits.py."""
    with started(("doctor", {"timeout": 600}), PYTHONPATH=SLEEPS) as server:
        children = examining(server)
        server.send_signal(signal.SIGTERM)
        assert server.stderr and (server.wait(), server.stderr.read()) == (143, b"")
        assert psutil.wait_procs(children, 60)[1] == []
    with started() as server:
        assert server.stdin and server.stdout and server.stderr
        server.stdout.close()
        server.stdin.write(request(2, "matrix", CALLS["matrix"]))
        server.stdin.flush()
        assert (server.stderr.read(), server.wait()) == (b"", 141)  # as every command


def examining(server: subprocess.Popen[bytes]) -> list[psutil.Process]:
    """Wait until TensorFlow is imported; return the processes that the server has started."""
    process = psutil.Process(server.pid)
    while not any("tensorflow_probe" in line for line in lines_of(process)):
        time.sleep(0.05)
    return process.children(recursive=True)


def test_a_cancelled_doctor_ends_with_its_processes() -> None:
    """TensorFlow hangs there. Other questions are answered meanwhile, and the next examination works."""

    async def cancel(client: Client) -> None:
        server = max(psutil.Process().children(), key=psutil.Process.create_time)
        async with anyio.create_task_group() as group:
            group.start_soon(client.call_tool, "doctor", {"timeout": 600})
            while not any("tensorflow_probe" in line for line in lines_of(server)):
                await anyio.sleep(0.05)
            assert not (await client.call_tool("explain", CALLS["explain"])).is_error
            group.cancel_scope.cancel()
        while lines_of(server):
            await anyio.sleep(0.05)
        assert not (await client.call_tool("doctor", {"import_tensorflow": False})).is_error

    environ = {**os.environ, "PYTHONPATH": SLEEPS}
    talk(cancel, stdio_client(StdioServerParameters(command=START[0], args=[*START[1:]], env=environ)))


def lines_of(server: psutil.Process) -> list[str]:
    """The command lines of what it has started; zombies have none."""
    found = []
    for one in server.children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            found.append(" ".join(one.cmdline()))
    return [line for line in found if line]


WRONG = read_rows(Path(__file__).with_name("mcp.yaml"))


@each("name, arguments, says", [*WRONG, ("explain", {"text": "x" * (LONGEST + 1)}, "text: ")])
def test_wrong_arguments_are_told_in_words(name: str, arguments: dict[str, Any], says: str) -> None:
    try:
        found = ask(name, **arguments)
        told = text_of(found) if found.is_error else ""
    except ToolError as error:
        told = str(error)
    assert says in told and "\n" not in told and len(told) <= 5000 and "jdoe42" not in told


def test_no_tool_takes_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name in a text stays a name; what a file includes must be among the files that were given."""
    words = {"path", "file", "executable", "saved", "output", "command", "url", "resolve", "fix"}
    tools = anyio.run(make_server(Tools()).list_tools)
    assert [tool.name for tool in tools if words & tool.input_schema["properties"].keys()] == []
    assert "python" not in tools[0].input_schema["properties"]  # elsewhere a version
    (tmp_path / "more.txt").write_text("tensorflow==2.4.0\n")
    (tmp_path / "log.txt").write_text(NO_DEVICE)
    monkeypatch.chdir(tmp_path)
    assert data_of(ask("explain", text=str(tmp_path / "log.txt")))["result"]["findings"] == []
    checked = ask("check", files={"requirements.txt": "-r more.txt\ntensorflow==2.15.1\n"}, python="3.11")
    assert "2.4.0" not in json.dumps(data_of(checked))


def test_hostile_text_comes_out_harmless() -> None:
    arguments: dict[str, dict[str, Any]] = {
        "explain": {"text": f"{BOMB}\n{NO_DEVICE} {BOMB}\nImportError: libcudart.so.11.0{BOMB}: no"},
        "check": {"files": {f"requirements{BOMB}.txt": f"tensorflow==2.4.1 # {BOMB}\n"}, "kind": "requirements"},
    }
    for name, given in arguments.items():
        told = ask(name, **given)
        assert list(offences(text_of(told))) == []
        found = [one for holder, key, _ in texts(data_of(told)) for one in offences(holder[key])]
        assert [one for one in found if "command" not in one] == []


def test_no_answer_is_megabytes() -> None:
    for name, arguments in (
        ("matrix", {"table": "tensorflow"}),
        ("matrix", {"table": "gpu"}),
        ("explain", {"text": f"{NO_DEVICE}\n" + "".join(f"{n} libcudart.so.{n}: cannot open\n" for n in range(2000))}),
        ("explain", {"text": "word " * 20_000}),
        ("check", {"files": {"requirements.txt": "".join(f"p{n}==1.{n}\n" for n in range(2000)) + "tensorflow"}}),
    ):
        found = ask(name, **arguments)
        assert len(json.dumps(data_of(found))) < server.LONGEST_ANSWER * 1.5, name
        assert len(text_of(found)) < server.LONGEST_PAGE * 1.1, name
    assert "ask for less, or with filters" in data_of(ask("matrix", table="gpu"))["left_out"][0]


def test_what_is_left_out_is_said() -> None:
    long = {"a": "x" * 50_000, "b": list(range(5000)), "c": {str(n): n for n in range(9999)}}
    for value in (long, *({key: one} for key, one in long.items()), {"a": [["y" * 5000] for _ in range(100)]}):
        short, left_out = server.shortened(value)
        assert left_out.startswith("texts are cut after") and len(json.dumps(short)) <= server.LONGEST_ANSWER
    assert server.shortened({"a": ["b"]}) == ({"a": ["b"]}, "")
    assert server.page("line\n" * 9999).endswith("more lines are left out)\n")


def test_private_values_do_not_leave_the_machine() -> None:
    for settings, leaves in (((), False), ((None, None, False), True)):
        found = ask("explain", settings, text=PRIVATE)
        assert ("jdoe42" in json.dumps(data_of(found))) is leaves
        assert ("jdoe42" in text_of(found)) is leaves
    report = make_report(healthy(), MATRIX, source="live", timings={}).to_json().decode()
    data = data_of(ask("explain", text=report))
    assert data["result"]["verdict"] == "ok" and "facts" not in data["result"]


def test_what_keeps_it_from_starting(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (tfgpu("mcp").returncode, tfgpu("mcp").stdout) == (0, "")  # no assistant: it ends
    assert "no such program" in tfgpu("mcp", "--python", "/nowhere/python").stderr
    assert tfgpu("mcp", "--matrix", "/nowhere/matrix.yaml").returncode == 2
    monkeypatch.setitem(sys.modules, "mcp.server.mcpserver", None)  # as of a version 1
    monkeypatch.delitem(sys.modules, "tfgpu_doctor.integrations.mcp.server")
    done = tfgpu("mcp")
    assert done.returncode == 2 and done.stdout == ""
    told = done.stderr.replace("\n", " ")
    assert "the MCP SDK cannot be used (" in told and f"{sys.executable} -m pip install 'mcp>=2'" in told
