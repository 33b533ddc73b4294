r"""The exact grammar of a study's configuration file, one line at a time.

    CONFIG_ROUNDS=20              a number; hexadecimal as 0x1f
    CONFIG_STUDY="a \"b\" \\ c"   text; a backslash may stand before " and \ only
    CONFIG_DEVICE_CPU=y           or n, which may be written as the line below
    # CONFIG_DEVICE_CPU is not set

Other lines that begin with # are comments. Kconfiglib reads more than this, and reads some of it as
something else (`=nope` as n, `"a" # b` as a), so nothing else passes here.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from assay.errors import BadInput

SYMBOL = "[A-Z][A-Z0-9_]*"
BLANK = re.compile(r"[ \t]*")
SET = re.compile(rf"CONFIG_({SYMBOL})=(.*)")
UNSET = re.compile(rf"# CONFIG_({SYMBOL}) is not set")
ALMOST_UNSET = re.compile(r"#\s*CONFIG_.*is not set\s*", re.IGNORECASE)
LINE_CHARACTERS = 80  # of a line that an error message repeats

FORMS = {
    "bool": re.compile(r"[yn]"),
    "int": re.compile(r"0|-?[1-9][0-9]{0,17}"),
    "hex": re.compile(r"0x[0-9a-fA-F]{1,16}"),
    "string": re.compile(r'"(?:[^\\"]|\\[\\"])*"'),
}


Typed = tuple[tuple[str, str], ...]  # flags, each with its text; an argument has an empty flag


class FlagSetting(str):
    """SYMBOL=VALUE that flags stand for: messages speak of the flags, which the user typed."""

    typed: Typed

    def __new__(cls, symbol: str, typed: Typed, value: str | None = None) -> "FlagSetting":
        for flag, text in typed:
            if not text:
                name = flag or "an argument"
                raise BadInput(f"{name} is empty; say what is wanted, or leave {flag or 'it'} out")
        joined = ",".join(text for _, text in typed)
        setting = super().__new__(cls, f"{symbol}={joined if value is None else value}")
        setting.typed = typed
        return setting


def as_typed(typed: Typed) -> str:
    """Flags and arguments as they stand on the command line."""
    shown = ((flag, text if text.isprintable() else repr(text)) for flag, text in typed)
    return " ".join(f"{flag} {text}" if flag else text for flag, text in shown)


@dataclass(frozen=True, kw_only=True)
class Assignment:
    """One symbol given a value, by a line of a file or by --set."""

    symbol: str
    text: str  # as a configuration file writes it: y, 20, "eager,sdpa"
    where: str  # file:line, or the whole --set entry
    prefix: str  # of messages about it: where, and the line itself
    typed: Typed = ()  # on the command line

    @property
    def type(self) -> str:
        """bool, int, hex or string, by the form of the text."""
        return form_of(self.text)


def read_lines(path: Path) -> list[str]:
    """The lines of a text file in UTF-8 with Unix line ends; anything else is refused."""
    content = path.read_bytes()
    lines = []
    for number, raw in enumerate(content.removesuffix(b"\n").split(b"\n"), 1):
        try:
            line = raw.decode("utf-8")
        except UnicodeDecodeError:
            raise BadInput(
                f"{path}:{number}: {_shown(raw)} is not UTF-8; save it as UTF-8"
            ) from None
        if "\0" in line:
            raise BadInput(f"{path}:{number}: {_shown(line)} has a NUL byte; wanted plain text")
        if "\r" in line:
            raise BadInput(
                f"{path}:{number}: {_shown(line)} has a carriage return; wanted Unix line ends "
                "(sed -i 's/\\r$//' FILE removes them)"
            )
        lines.append(line)
    return lines


def parse(path: Path) -> list[Assignment]:
    """Every assignment of the file, in order; the first line outside the grammar is refused."""
    assignments = []
    for number, line in enumerate(read_lines(path), 1):
        assignment = parse_line(line, where=f"{path}:{number}")
        if assignment:
            assignments.append(assignment)
    return assignments


def parse_line(line: str, *, where: str) -> Assignment | None:
    """The assignment on one line; None where it is blank or a comment."""
    if match := UNSET.fullmatch(line):
        symbol, text = match[1], "n"
    elif BLANK.fullmatch(line) or (line.startswith("#") and not ALMOST_UNSET.fullmatch(line)):
        return None
    elif (match := SET.fullmatch(line)) and is_value(match[2]):
        symbol, text = match.groups()
    else:
        raise BadInput(f"{where}: {_shown(line)} {_complaint(line)}")
    return Assignment(symbol=symbol, text=text, where=where, prefix=f"{where}: {line}")


def form_of(text: str) -> str:
    """The type that `text` is written as: bool, int, hex or string."""
    return next(name for name, form in FORMS.items() if form.fullmatch(text))


def is_value(text: str) -> bool:
    """True where `text` may stand to the right of the equals sign."""
    return text.isprintable() and any(form.fullmatch(text) for form in FORMS.values())


def quote(text: str) -> str:
    """Text as a configuration file writes it."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def unquote(text: str) -> str:
    """Return a value without its quotes and escapes."""
    return re.sub(r"\\(.)", r"\1", text[1:-1]) if text.startswith('"') else text


def line_of(symbol: str, text: str) -> str:
    """The line that assigns `text`, without a line end."""
    return f"# CONFIG_{symbol} is not set" if text == "n" else f"CONFIG_{symbol}={text}"


def file_text(config: Mapping[str, str]) -> str:
    """A whole file: one line per symbol, in the order of `config`."""
    return "".join(f"{line_of(symbol, text)}\n" for symbol, text in config.items())


def _complaint(line: str) -> str:
    """Describe what is wrong with a line outside the grammar, and what was wanted."""
    wanted = 'wanted CONFIG_NAME=value with y, n, a number or "text" as its value'
    if line.startswith("#"):
        return "looks like an unset symbol; wanted exactly: # CONFIG_NAME is not set"
    if not line.isprintable():
        return f"has an invisible character; {wanted}"
    if re.match(r"\s", line) or re.match(r"[^=\"]*\s=|[^=\"]*=\s", line):
        return f"has spaces before the name or around =; {wanted}"
    if not (match := SET.fullmatch(line)):
        return f"is neither an assignment nor a comment; {wanted}"
    return f"has a value that cannot be read: {_value_complaint(match[2])}; {wanted}"


def _value_complaint(text: str) -> str:
    if re.fullmatch(r".*\s#.*", text):
        return "a comment stands on a line of its own"
    if text != text.rstrip():
        return "there are spaces at the end of the line"
    if text.startswith('"'):
        return r"the quotes do not match, or a backslash is not written as \\"
    if re.fullmatch(r"[mYNM]", text):
        return "a switch is y or n"
    if re.match(r"[-+0-9]", text):
        return "a number has digits alone (18 at most) and no leading zeros"
    return "text stands in double quotes"


def _shown(line: str | bytes) -> str:
    """A line as a message repeats it, with what is invisible made visible."""
    return repr(line if len(line) <= LINE_CHARACTERS else line[:LINE_CHARACTERS])
