"""The tables of docs/results/campaign.md, from docs/results/campaign.json alone.

python -m campaign.page [LINES]     keeps the lines of a campaign first, where they are given
"""

import json
import sys
from pathlib import Path
from typing import Any

from assay.host import CHECKOUT
from assay.verify.pages import tables

PAGE = CHECKOUT / "docs/results/campaign.md"
RESULTS = CHECKOUT / "docs/results/campaign.json"


def keep(lines: Path) -> None:
    """Replace the results by the lines of a campaign, without the bytes of inputs."""
    kept = [json.loads(text) for text in lines.read_text().splitlines()]
    rows = [json.dumps({k: v for k, v in line.items() if k != "input"}) for line in kept]
    RESULTS.write_text("[\n" + ",\n".join(rows) + "\n]\n")


def written(text: str) -> str:
    """The page with every marked table made anew."""
    return tables.written(text, {"mutations": mutations, "kills": kills})


def mutations() -> str:
    """Formats with the ends of their inputs."""
    heads = ("format", "inputs", "read", "refused", "findings", "inputs a second", "seed")
    rows = [
        (f"`{line['format']}`", *(f"{line[key]:,}" for key in ("inputs", "read", "refused")),
         f"{line['findings']:,}", f"{line['inputs'] / line['seconds']:.0f}", str(line["seed"]))
        for line in _lines("mutations")
    ]  # fmt: skip
    return _table(heads, rows)


def kills() -> str:
    """Studies with the places that the kills met."""
    heads = ("seed", "studies", "kills", "met", "findings")
    rows = [
        (str(line["seed"]), str(line["studies"]), f"{line['kills']:,}",
         ", ".join(f"{place} {count:,}" for place, count in sorted(line["met"].items())),
         str(line["findings"]))
        for line in _lines("kills")
    ]  # fmt: skip
    return _table(heads, rows)


def _lines(part: str) -> list[dict[str, Any]]:
    lines = json.loads(RESULTS.read_text())
    return [line for line in lines if line["part"] == part and "finding" not in line]


def _table(heads: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    marks = ("---",) * len(heads)
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (heads, marks, *rows))


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        keep(Path(argument))
    PAGE.write_text(written(PAGE.read_text()))
