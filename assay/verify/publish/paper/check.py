"""Checks a paper's folder: what it refers to is there, and every number arrives in the PDF.

    python3 check.py                              labels, citations, files, braces, tables
    python3 check.py --log main.log --pdf main.pdf    what TeX could not resolve, numbers in the PDF

It needs nothing but Python, and ends in 1 where something is wrong.
"""

import argparse
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

_INPUT = re.compile(r"\\input\{([^}]*)\}")
_GRAPHICS = re.compile(r"\\includegraphics(?:\[[^\]]*\])?\{([^}]*)\}")
_LABEL = re.compile(r"\\label\{([^}]*)\}")
_REF = re.compile(r"\\(?:page|eq|auto)?ref\{([^}]*)\}")
_CITE = re.compile(r"\\cite\w*(?:\[[^\]]*\])?\{([^}]*)\}")
_BIBLIOGRAPHY = re.compile(r"\\bibliography\{([^}]*)\}")
_ENTRY = re.compile(r"^@\w+\{([^,\s]+),", re.MULTILINE)
_ENVIRONMENT = re.compile(r"\\(begin|end)\{([^}]*)\}")
_COMMENT = re.compile(r"(?<!\\)%[^\n]+")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
# A font that has no shape of its own is called undefined too, and another takes its place.
_UNRESOLVED = re.compile(r"(?i)^(?!.*font shape).*(?:undefined|multiply[ -]defined|\?\?)")
# Names of files and labels, in which an underscore is none of TeX's.
_NAMES = re.compile(
    r"\\(?:input|includegraphics|label|ref|cite|bibliography)(?:\[[^\]]*\])?\{[^}]*\}"
)


def check_source(folder: Path) -> list[str]:
    """All that is wrong with main.tex and what it reads."""
    problems: list[str] = []
    texts = _read(folder, "main.tex", problems)
    whole = "\n".join(texts.values())
    for name, count in Counter(_LABEL.findall(whole)).items():
        if count > 1:
            problems.append(f"label {name} is there {count} times")
    problems += [
        f"reference to {name}, which is no label"
        for name in sorted(set(_REF.findall(whole)) - set(_LABEL.findall(whole)))
    ]
    problems += _citations(folder, whole)
    for name in _GRAPHICS.findall(whole):
        problems += _absent(folder, name)
    for name, text in texts.items():
        problems += [f"{name}: {problem}" for problem in _syntax(text)]
    return problems


def check_log(log: Path) -> list[str]:
    """Lines in which TeX says that something is not resolved."""
    if not log.is_file():
        return [f"{log} is missing: TeX has not run"]
    lines = log.read_text(errors="replace").splitlines()
    return [f"{log.name}: {line.strip()}" for line in lines if _UNRESOLVED.search(line)]


def check_pdf(folder: Path, pdf: Path) -> list[str]:
    """Numbers of the tables that the PDF does not show, and marks of what is not resolved."""
    if not pdf.is_file():
        return [f"{pdf} is missing"]
    if shutil.which("pdftotext") is None:
        print("not tested: pdftotext is not installed, so the PDF was not read back")
        return []
    command = ["pdftotext", "-layout", str(pdf), "-"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    shown = set(_NUMBER.findall(text))
    problems = ["the PDF shows ??"] if "??" in text else []
    for file in sorted((folder / "tables").glob("*.tex")):
        lost = sorted(numbers(file.read_text()) - shown)
        if lost:
            problems.append(f"{file.name}: not in the PDF: {', '.join(lost[:5])}")
    return problems


def numbers(table: str) -> set[str]:
    """The numbers in the rows of a table."""
    rows = "\n".join(line for line in table.splitlines() if line.endswith(r"\\"))
    return set(_NUMBER.findall(re.sub(r"\\[A-Za-z]+", " ", rows)))


def _read(folder: Path, name: str, problems: list[str]) -> dict[str, str]:
    """A file and all that it reads by input, by name."""
    waiting, texts = [name], {}
    while waiting:
        name = waiting.pop()
        absent = _absent(folder, name)
        if absent or name in texts:
            problems += absent
            continue
        content = (folder / name).read_text(encoding="utf-8", errors="replace")
        if name != "main.tex" and _COMMENT.search(content):
            problems.append(f"{name}: a sign that TeX takes for a comment")
        texts[name] = _COMMENT.sub("", content)
        inputs = _INPUT.findall(texts[name])
        waiting += [file if file.endswith(".tex") else f"{file}.tex" for file in inputs]
    return texts


def _absent(folder: Path, name: str) -> list[str]:
    path = folder / name
    if not path.resolve().is_relative_to(folder.resolve()):
        return [f"{name} lies outside this folder"]
    return [] if path.is_file() else [f"{name} is missing"]


def _citations(folder: Path, whole: str) -> list[str]:
    problems, known = [], set()
    for names in _BIBLIOGRAPHY.findall(whole):
        for name in names.split(","):
            file = f"{name.strip()}.bib"
            problems += _absent(folder, file)
            if not _absent(folder, file):
                text = (folder / file).read_text()
                known |= set(_ENTRY.findall(text))
                problems += [f"{file}: {problem}" for problem in _braces(text)]
    cited = {key.strip() for keys in _CITE.findall(whole) for key in keys.split(",")}
    return problems + [f"citation of {key}, which no .bib has" for key in sorted(cited - known)]


def _syntax(text: str) -> list[str]:
    problems = _braces(text)
    if not text.isascii():
        problems.append("holds a letter that is not ASCII")
    open_names: list[str] = []
    for act, name in _ENVIRONMENT.findall(text):
        if act == "begin":
            open_names.append(name)
        elif not open_names or open_names.pop() != name:
            problems.append(f"\\end{{{name}}} without its \\begin")
    problems += [f"\\begin{{{name}}} without its \\end" for name in open_names]
    return problems + _rows(text)


def _braces(text: str) -> list[str]:
    depth = 0
    for brace in re.findall(r"(?<!\\)(?:\\\\)*([{}])", text):
        depth += 1 if brace == "{" else -1
        if depth < 0:
            return ["a closing brace too many"]
    return ["an opening brace too many"] if depth else []


def _rows(text: str) -> list[str]:
    """Rows of tables that have more or fewer entries than the first, or signs that TeX would take
    for commands."""
    problems = []
    for table in re.findall(r"\\begin\{tabular\}(.*?)\\end\{tabular\}", text, re.DOTALL):
        rows = [line for line in table.splitlines() if line.endswith(r"\\")]
        widths = {len(re.findall(r"(?<!\\)&", row)) for row in rows}
        if len(widths) > 1:
            problems.append(f"rows of {sorted(width + 1 for width in widths)} entries in one table")
    for line in _NAMES.sub("", text).splitlines():
        if line.endswith(r"\\") and re.search(r"(?<!\\)[_#]", line):
            problems.append(f"a sign that TeX takes for a command: {line[:60]}")
    return problems


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--log", type=Path, help="TeX's log")
    parser.add_argument("--pdf", type=Path, help="the PDF, read back with pdftotext")
    given = parser.parse_args()
    folder = Path(__file__).parent
    problems = check_source(folder)
    problems += check_log(given.log) if given.log else []
    problems += check_pdf(folder, given.pdf) if given.pdf else []
    for problem in problems:
        print(f"wrong: {problem}", file=sys.stderr)
    noun = "problem" if len(problems) == 1 else "problems"
    print(f"{'FAIL' if problems else 'PASS'}  {len(problems)} {noun}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
