"""Figures on a page: each is owned by a claim, stands in a generated table, or is marked.

    [0.91](../claims/append-speed.toml)      a link to its claim
    <!-- table: NAME --> ... <!-- end -->    a generated table, which is made again and compared
    Not kept: single runs by hand.           begins a paragraph: no records of the figures of its
                                             section, and of the sections within it
    ... 3.5 s (not kept) ...                 within a block: no records of that block's figures
    <!-- set -->                             before a block: settings, formulas and targets in it
    <!-- evidence: NAME, NAME -->            before a block: its figures are those of such records
    <!-- page: results/kv.md -->             before a block: its figures stand on that page

A figure that repeats one of a claim or of a generated table of its page needs no mark. Code is not
looked at, but transcripts are: fenced blocks that begin with a prompt.
"""

import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from assay.errors import BadInput
from assay.verify.marked_tables import MARKED, generated_tables

_UNIT = (
    r"(?:[numµ]s|s|min|minutes|seconds|hours|days|[GMT]B/s|[GT]FLOP/s|tokens/s|[KMGT]i?B|%|percent|"
    r"x|×|times|-?fold|W|MHz|°C|nats)"
)
_NUMBER = r"\d[\d,]*(?:\.\d+)?"
_WITH_UNIT = re.compile(rf"(?<![\w.,-])({_NUMBER})k?\s?{_UNIT}(?![\w/])")
_DECIMAL = re.compile(r"(?<![\w.,/-])(\d[\d,]*\.\d+)(?![\w.]*\.?\d)")
# Numbers that are no figures: versions, by the word before them, and the level of an interval.
_VERSION = re.compile(
    r"\b(?:torch|Triton|JAX|Python|typer|transformers|wandb|trackio|Linux|driver|lm-eval|CUDA|cuDNN|"
    rf"kvpress|release|version)\b[^\d\n]{{0,3}}v?\d+(?:\.\d+)+[\w.+]*(?!\s?{_UNIT})",
    re.IGNORECASE,
)
_LEVEL = re.compile(
    r"\b9[59] %(?=\s+(?:\w+\s+)?(?:interval|bootstrap|power|over|of the|upper|range))"
)
# What was asked for, by the word before it in the same clause.
_BOUND = re.compile(rf"\b(?:asked|goal|target)\b[^.;|\n]{{0,60}}?{_NUMBER}", re.IGNORECASE)
_CLAIM_LINK = re.compile(r"\[([^\]]+)\]\([^)\s]*claims/[\w-]+\.toml\)")
_LINK = re.compile(r"\[([^\]]+)\]\([^)\s]+\)")
_FENCE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
_NOT_KEPT = re.compile(r"\bnot\s+kept\b", re.IGNORECASE)
_MARK = re.compile(r"<!-- (set|evidence|page)(?:: (.*?))? -->")


@dataclass(frozen=True, kw_only=True)
class PageBlock:
    """A paragraph, list, table or transcript of a page."""

    line: int
    sections: tuple[int, ...]  # the headings that it stands under, by their number, outermost first
    text: str


# Says of figures and the name of an evidence folder which of them no record there gives.
Judge = Callable[[Collection[str], str], list[str]]


def unaccounted(page: Path, not_in_evidence: Judge) -> list[tuple[int, list[str]]]:
    """The figures of a page that nothing accounts for, by the line where their block begins."""
    text = read_page(page)
    owned = _owned(text)
    blocks = list(_blocks(text))
    unkept = {block.sections for block in blocks if block.text.startswith("Not kept:")}
    lines = []
    for block in blocks:
        figures = [figure for figure in _figures(block.text) if figure not in owned]
        enclosing = {block.sections[:depth] for depth in range(len(block.sections) + 1)}
        if enclosing & unkept or _NOT_KEPT.search(block.text):
            continue
        for kind, name in _MARK.findall(block.text):
            if kind == "set":
                figures = []
            elif kind == "page":
                figures = _absent(figures, page.parent / name)
            else:
                figures = [figure for figure in figures if not_in_evidence([figure], name)]
        if figures:
            lines.append((block.line, figures))
    return lines


def read_page(page: Path) -> str:
    """The text of a page, or a sentence on why it is none."""
    try:
        return page.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"cannot read {page}: {error}") from error


def _owned(text: str) -> set[str]:
    """Figures of a page that have an owner, and that are long enough not to be another's."""
    tables = " ".join(generated_tables(text).values())
    repeated = {digits for digits in re.findall(_NUMBER, tables) if len(digits) > 2}
    return repeated | set(_CLAIM_LINK.findall(text))


def _absent(figures: Collection[str], page: Path) -> list[str]:
    there = set(re.findall(_NUMBER, read_page(page))) if page.is_file() else set()
    return [figure for figure in figures if figure not in there]


def _figures(text: str) -> list[str]:
    """Numbers with a unit and numbers with decimals, as written; links to claims are left out."""
    plain = _CLAIM_LINK.sub(" ", text)
    plain = _LINK.sub(lambda link: link[1], plain)
    for no_figure in (_VERSION, _LEVEL, _BOUND):
        plain = no_figure.sub(" ", plain)
    plain = re.sub(r"<!--.*?-->|\*\*", "", plain, flags=re.DOTALL)
    if "```" not in text:
        plain = re.sub(rf"`(?!{_NUMBER}`)[^`]*`", " ", plain).replace("`", "")
    return list(dict.fromkeys(m[1] for p in (_WITH_UNIT, _DECIMAL) for m in p.finditer(plain)))


def _blocks(text: str) -> Iterator[PageBlock]:
    """Blocks between blank lines, without generated tables and without code."""
    blanked = MARKED.sub(_as_blank, text)
    blanked = _FENCE.sub(lambda m: m[0] if _is_transcript(m[0]) else _as_blank(m), blanked)
    sections: list[tuple[int, int]] = []  # level and number of each heading
    start, lines, fenced, headings = 1, [], False, 0
    for number, line in enumerate([*blanked.splitlines(), ""], start=1):
        fenced ^= line.startswith("```")
        if line.startswith("#") and not fenced:
            headings += 1
            level = len(line) - len(line.lstrip("#"))
            sections = [*(each for each in sections if each[0] < level), (level, headings)]
            place = tuple(number for _, number in sections)
            yield PageBlock(line=number, sections=place, text=line)
            continue
        if line.strip() or fenced:
            start = start if lines else number
            lines.append(line)
        elif lines:
            place = tuple(number for _, number in sections)
            yield PageBlock(line=start, sections=place, text="\n".join(lines))
            lines = []


def _as_blank(match: re.Match[str]) -> str:
    return "\n" * match[0].count("\n")


def _is_transcript(fence: str) -> bool:
    return fence.startswith("```\n$ ")
