"""One look for all help pages: what a verb does, its usage, an example, arguments and flags.

A verb's help text ends in `Example: assay ...`. Nothing is split within a word, so that every flag
and every name can be copied from the page.
"""

import inspect
import re
import textwrap
from collections.abc import Iterable
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from assay.errors import BadInput, did_you_mean, unknown_name

WIDTH = 80
_INDENT = "  "
_MOST_NAMES = 24  # columns of names; a longer one has a line of its own


class _Page:
    """The part of a page that commands and groups share."""

    help: str | None
    params: list[Any]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        about, example = _parts(self.help)
        formatter.write(_wrapped(about, "") + "\n\n")
        usage = " ".join(["Usage:", ctx.command_path, *self.collect_usage_pieces(ctx)])
        formatter.write(_wrapped(usage, "", later=" " * 8) + "\n")
        if example:
            formatter.write(f"\nExample:\n{_command_line(example)}\n")
        for title, rows in self._sections(ctx):
            if rows:
                formatter.write(f"\n{title}:\n" + "\n".join(_rows(rows)) + "\n")

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Arguments in the order they are given, then that there are flags."""
        arguments = [_argument(p) for p in self.params if p.param_type_name == "argument"]
        return [*arguments, "[FLAGS]"]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)  # type: ignore[misc]
        except Exception as error:
            if text := getattr(error, "message", None):
                error.message = _in_words(text)  # type: ignore[attr-defined]
            if wrong := getattr(error, "option_name", None):  # no such flag, or one without a value
                flags = {o for p in self.params for o in (*p.opts, *p.secondary_opts)} - {wrong}
                hint = did_you_mean(wrong, sorted(f for f in flags if f.startswith("--")))
                if error.__class__.__name__ == "NoSuchOption" and hint:
                    error.message, error.possibilities = f"{error}; {hint}", None  # type: ignore[attr-defined]
            raise

    def _sections(self, ctx: Any) -> Iterable[tuple[str, list[tuple[str, str]]]]:
        for kind, title in (("argument", "Arguments"), ("option", "Flags")):
            params = [p for p in self.get_params(ctx) if p.param_type_name == kind]  # type: ignore[attr-defined]
            yield title, [_tidied(*r) for p in params if (r := p.get_help_record(ctx))]


class HelpfulCommand(_Page, TyperCommand):
    """A verb, or a part of one."""


class HelpfulGroup(_Page, TyperGroup):
    """A verb of several parts."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return ["COMMAND", "..."]

    def summaries(self, ctx: Any) -> list[tuple[str, str]]:
        """Each command with what it does."""
        commands = {name: self.get_command(ctx, name) for name in self.list_commands(ctx)}
        return [(name, _parts(command.help)[0]) for name, command in commands.items() if command]

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and not ctx.resilient_parsing and self.get_command(ctx, args[0]) is None:
            known = self.list_commands(ctx)
            raise BadInput(
                f"{unknown_name('command', args[0], known)} `{ctx.command_path} --help` says what "
                "each does"
            )
        return super().resolve_command(ctx, args)

    def _sections(self, ctx: Any) -> Iterable[tuple[str, list[tuple[str, str]]]]:
        yield "Commands", self.summaries(ctx)
        yield from super()._sections(ctx)


def dressed(app: typer.Typer) -> typer.Typer:
    """A verb's commands and groups with this look."""
    app.rich_markup_mode = None
    app.info.cls = HelpfulGroup
    for command in app.registered_commands:
        command.cls = HelpfulCommand
    for group in app.registered_groups:
        if group.typer_instance:
            dressed(group.typer_instance)
    return app


def _in_words(text: str) -> str:
    """A message of the library about a number."""
    text = re.sub(r"a valid int(eger)?( range)?\b", "a whole number", text)
    text = re.sub(r"a valid float( range)?\b", "a number", text)
    return re.sub(r"is not in the range x>=(\S+)\.", r"is too small; the least is \1", text)


def _parts(text: str | None) -> tuple[str, str]:
    about, _, example = inspect.cleandoc(text or "").partition("Example:")
    return " ".join(about.split()), " ".join(example.split())


def _argument(param: Any) -> str:
    if param.metavar:
        return param.metavar
    name = f"{param.name.upper()}{'...' if param.nargs != 1 else ''}"
    return name if param.required else f"[{name}]"


def _tidied(name: str, text: str) -> tuple[str, str]:
    """A flag with a plain type and its least value in words; an argument in capitals."""
    if name.startswith("-"):
        return name.replace(" range>", ">"), re.sub(r"\bx>=([^\s;\]]+)", r"at least \1", text)
    return name.upper() if name.islower() else name, text


def _rows(rows: list[tuple[str, str]]) -> Iterable[str]:
    width = min(_MOST_NAMES, max(len(name) for name, _ in rows))
    margin = " " * (len(_INDENT) + width + 2)
    for name, text in rows:
        if len(name) > width:
            yield f"{_INDENT}{name}\n{_wrapped(text, margin)}"
        else:
            yield f"{_INDENT}{name:<{width}}  {_wrapped(text, margin).lstrip()}".rstrip()


def _wrapped(text: str, margin: str, *, later: str | None = None) -> str:
    """Lines within the width, none of which ends within a word."""
    return textwrap.fill(
        text,
        width=WIDTH,
        initial_indent=margin,
        subsequent_indent=margin if later is None else later,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _command_line(example: str) -> str:
    """A command that can be pasted into a shell, whatever its length."""
    lines = textwrap.wrap(
        example,
        width=WIDTH - 2,
        initial_indent=_INDENT,
        subsequent_indent=_INDENT * 2,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return " \\\n".join(lines)
