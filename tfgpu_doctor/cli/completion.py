"""`tfgpu completion`: the script that makes a shell complete commands, options, GPU names, finding ids and files."""

from __future__ import annotations

import click
from click.shell_completion import BashComplete, ShellComplete, get_completion_class

from tfgpu_doctor.cli.options import define_command
from tfgpu_doctor.cli.output import Output
from tfgpu_doctor.cli.values import OneOf

SHELLS = ("bash", "zsh", "fish")
VARIABLE = "_TFGPU_COMPLETE"  # in which the script says what it asks for
_HELP = """Print the script that makes a shell complete commands, options, GPU names, finding ids and files.

\b
bash: eval "$(tfgpu completion bash)"               in ~/.bashrc
zsh:  eval "$(tfgpu completion zsh)"                in ~/.zshrc, after compinit
fish: tfgpu completion fish > ~/.config/fish/completions/tfgpu.fish
"""
# unlike in the script of click, readline quotes a value with a space or a star, as it does with names of files
_BASH = r"""
%(complete_func)s() {
    local line kind value
    COMPREPLY=()
    while IFS= read -r line; do
        kind=${line%%%%,*}
        value=${line#*,}
        case $kind in
            dir) compopt -o dirnames 2>/dev/null ;;
            file) compopt -o default 2>/dev/null ;;
            *)
                COMPREPLY+=("$value")
                case $value in *[\ \*]*) compopt -o filenames 2>/dev/null ;; esac
                ;;
        esac
    done < <(IFS=$'\n'; env COMP_WORDS="${COMP_WORDS[*]}" COMP_CWORD=$COMP_CWORD %(complete_var)s=bash_complete "$1")
}
complete -F %(complete_func)s %(prog_name)s
"""


class Bash(BashComplete):
    """Bash, from its version 4 on."""

    def source(self) -> str:
        """The script; no bash is started to ask for its version."""
        return _BASH % self.source_vars()


@define_command(
    "completion",
    help=_HELP,
    short_help="Print the script for completion in bash, zsh or fish.",
    epilog='Example: eval "$(tfgpu completion bash)"',
)
@click.argument("shell", type=OneOf(SHELLS))
@click.pass_context
def command(context: click.Context, shell: str) -> None:
    """Print the script; what the help page says stands above."""
    script = _class(shell)(context.find_root().command, {}, "tfgpu", VARIABLE).source()
    Output("text", None).write_text(script)


def answer(cli: click.Command, instruction: str) -> int:
    """What the script asks for: `instruction` is "bash_complete"; returns an exit code.

    That of click writes bytes, past the guard of the stream.
    """
    shell, _, what = instruction.partition("_")
    if shell not in SHELLS or what not in ("complete", "source"):
        return 1
    found = _class(shell)(cli, {}, "tfgpu", VARIABLE)
    Output("text", None).write_text((found.complete() if what == "complete" else found.source()) + "\n")
    return 0


def _class(shell: str) -> type[ShellComplete]:
    found = Bash if shell == "bash" else get_completion_class(shell)
    assert found is not None
    return found
