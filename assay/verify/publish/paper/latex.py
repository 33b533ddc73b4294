"""LaTeX as plain ASCII: texts from outside so that none of it is read as a command, and tables."""

import unicodedata
from collections.abc import Iterator

from assay.reports.table import Entry, Table

# Braces are written as words, for BibTeX counts even those behind a backslash. An opening bracket
# or a star at the start of a row would be taken for an argument of the row's end before it.
_CHARACTERS = {
    "\\": r"\textbackslash{}", "{": r"\textbraceleft{}", "}": r"\textbraceright{}",
    "_": r"\_", "%": r"\%", "$": r"\$", "#": r"\#", "&": r"\&",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "`": r"\textasciigrave{}",
    "'": r"\textquotesingle{}", '"': r"\textquotedbl{}", "|": r"\textbar{}",
    "<": r"\textless{}", ">": r"\textgreater{}", "[": "{[}", "]": "{]}", "*": "{*}",
    "–": r"\textendash{}", "—": r"\textemdash{}", "…": r"\textellipsis{}", "×": r"$\times$",
    "±": r"$\pm$", "≤": r"$\le$", "≥": r"$\ge$", "≈": r"$\approx$", "−": "-", "µ": r"$\mu$",
    "μ": r"$\mu$", "°": r"\textdegree{}", "·": r"\textperiodcentered{}",
    "²": r"\textsuperscript{2}", "³": r"\textsuperscript{3}",
    "ß": r"\ss{}", "ø": r"\o{}", "Ø": r"\O{}", "æ": r"\ae{}",
}  # fmt: skip
_ACCENTS = {
    "\u0300": r"\`", "\u0301": r"\'", "\u0302": r"\^", "\u0303": r"\~", "\u0308": r"\"",
    "\u0327": r"\c", "\u030a": r"\r", "\u030c": r"\v", "\u0304": r"\=", "\u0328": r"\k",
}  # fmt: skip
_LONG = 45  # letters, beyond which the text of a column is broken into lines
_BROKEN = r">{\raggedright\arraybackslash}p{6cm}"
_MOST_ROWS = 40  # on a page


def escape(text: str) -> str:
    """Text in ASCII that LaTeX prints as it is; a letter it lacks becomes U+ and its number."""
    escaped = "".join(map(_character, text))
    for pair in ("--", ",,"):  # which fonts join to another sign
        while pair in escaped:
            escaped = escaped.replace(pair, f"{pair[0]}{{}}{pair[1]}")
    return escaped


def tabulars(table: Table) -> list[list[str]]:
    """A table in parts that fit a page, as lines; a row is one line, which ends in \\\\."""
    rows = [[_entry(entry, table.reasons) for entry in row] for row in table.entries]
    parts = [rows[start : start + _MOST_ROWS] for start in range(0, len(rows), _MOST_ROWS)]
    return [list(_tabular(table, part)) for part in parts]


def remarks(table: Table) -> Iterator[str]:
    """The note of a table, and the reasons that its numbers in brackets refer to."""
    if table.note:
        yield escape(table.note)
    for reason, index in table.reasons.items():
        yield f"({index})~{escape(reason)}"


def _tabular(table: Table, rows: list[list[str]]) -> Iterator[str]:
    yield rf"\begin{{tabular}}{{{_columns(table)}}}"
    yield r"\hline"
    yield _row(escape(column) for column in table.columns)
    yield r"\hline"
    yield from (_row(row) for row in rows)
    yield r"\hline"
    yield r"\end{tabular}"


def _columns(table: Table) -> str:
    kinds = []
    for index, numeric in enumerate(table.numeric):
        longest = max((len(row[index].text) for row in table.entries), default=0)
        kinds.append("r" if numeric else _BROKEN if longest > _LONG else "l")
    return "".join(kinds)


def _row(texts: Iterator[str] | list[str]) -> str:
    return " & ".join(texts) + r" \\"


def _entry(entry: Entry, reasons: dict[str, int]) -> str:
    text = escape(entry.text)
    if entry.detail:
        text += f" ({escape(entry.detail)})"
    return f"{text} ({reasons[entry.hint]})" if entry.needs_reason else text


def _character(character: str) -> str:
    if character in _CHARACTERS:
        return _CHARACTERS[character]
    if character in "\n\r\t":
        return " "
    if " " <= character <= "~":
        return character
    base, *accents = unicodedata.normalize("NFD", character)
    if base.isascii() and base.isalpha() and accents and all(a in _ACCENTS for a in accents):
        for accent in accents:
            base = f"{_ACCENTS[accent]}{{{base}}}"
        return base
    return rf"\codepoint{{{ord(character):04X}}}"
