"""The command line: finds the verbs in `assay/verbs`, and turns refusals into exit codes."""

import signal
import sys
from io import TextIOWrapper
from typing import Annotated, Any

import typer

from assay import __version__, plugins
from assay.errors import BAD_INPUT, INTERNAL_ERROR, BadInput, CannotRunHere
from assay.help_pages import HelpfulGroup, dressed
from assay.records.durable import in_words
from assay.records.foreign_text import GuardedStream, message

_MOST_CHARACTERS = 20_000  # of an error on the terminal


class Verbs(HelpfulGroup):
    """A group whose commands are the files of the verbs folder, imported when asked for."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(plugins.listing("verbs"))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        verb = plugins.listing("verbs").get(cmd_name)
        if verb is None:
            return None
        command = typer.main.get_command(dressed(plugins.load(verb).command()))
        command.name = cmd_name
        return command

    def summaries(self, ctx: Any) -> list[tuple[str, str]]:
        return [(name, verb.summary) for name, verb in plugins.listing("verbs").items()]


def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and end.", is_eager=True)
    ] = False,
) -> None:
    if version:
        print(f"assay {__version__}")
        raise typer.Exit


def _group() -> Any:
    app = typer.Typer(
        cls=Verbs,
        no_args_is_help=True,
        invoke_without_command=True,  # --version has none
        context_settings={"help_option_names": ["-h", "--help"]},
        rich_markup_mode=None,  # plain help: rich's takes longer to load than all the rest
        help="A workbench for attention: capture, run, measure, verify. "
        "Exit codes: 0 holds, 1 measured and does not hold, 2 bad input, 3 cannot run here. "
        "Example: assay check my_attention.py --quick",
    )
    app.callback()(_root)
    return typer.main.get_command(app)


def main() -> None:
    """Run `assay` with the arguments of this process."""
    signal.signal(signal.SIGTERM, _interrupt)
    for stream in (sys.stdout, sys.stderr):  # the name of a file may be any bytes
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    sys.stdout, sys.stderr = GuardedStream(sys.stdout), GuardedStream(sys.stderr)
    try:
        if any("\0" in argument for argument in sys.argv):
            raise BadInput("an argument holds a NUL character, which no path has; leave it out")
        _group()(prog_name="assay")
    except (BadInput, CannotRunHere) as error:
        _refuse(str(error), error.exit_code)
    except OSError as error:
        _refuse(in_words(error), BAD_INPUT)
    except Exception:
        import traceback

        print(message(traceback.format_exc(), _MOST_CHARACTERS), file=sys.stderr)
        print("assay: this is an error in assay itself; nothing recorded is lost", file=sys.stderr)
        sys.exit(INTERNAL_ERROR)


def _refuse(words: str, code: int) -> None:
    print(f"assay: {message(words, _MOST_CHARACTERS)}", file=sys.stderr)
    sys.exit(code)


def _interrupt(*_: Any) -> None:
    """A polite request to end is the same as Ctrl-C."""
    raise KeyboardInterrupt
