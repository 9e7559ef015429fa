"""`tfgpu mcp`: serves assistants, after a look whether the SDK is there."""

from __future__ import annotations

import shlex
import sys
from functools import partial

from tfgpu_doctor import commands
from tfgpu_doctor.cli.options import define_command, matrix_option, python_option, rare_option
from tfgpu_doctor.render.streams import say

NEEDS = "mcp>=2"  # what pyproject.toml asks for


@define_command(
    "mcp",
    epilog="Examples: tfgpu mcp; tfgpu mcp --python ~/env/bin/python",
)
@python_option("Python interpreter, or its environment, whose TensorFlow the assistant may diagnose.")
@matrix_option
@rare_option(
    "--redact/--no-redact",
    "redact",
    default=True,
    help="Replace names of users and hosts, private paths, addresses, UUIDs, serial numbers and credentials in what "
    "the assistant gets.  [default: --redact]",
)
def command(python: str | None, matrix: str | None, redact: bool) -> None:
    """Let an assistant diagnose, plan and check, over the Model Context Protocol.

    An assistant (a client of the protocol) starts this command and speaks to it over standard input and output. It gets
    the tools doctor, explain, plan, matrix and check, which change nothing and use no network. If the
    MCP SDK is missing, the command that installs it is shown.

    Exit codes: 0 the assistant has ended, 2 wrong usage, or the SDK is missing.
    """
    try:
        from tfgpu_doctor.integrations.mcp.server import Tools, serve
    except ImportError as error:  # it is missing, or too old
        install = shlex.join([sys.executable, "-m", "pip", "install", NEEDS])
        raise commands.UsageError(f"the MCP SDK cannot be used ({error}). To install it:", f"    {install}") from error
    executable = None if python is None else commands.find_python(python)
    commands.load_matrix(matrix)  # a wrong one is refused here, not at the first question
    if sys.stdin and sys.stdin.isatty():
        say("tfgpu: an assistant is expected on standard input, not a terminal; Ctrl-D ends this")
    serve(partial(Tools, executable, matrix, redact))
