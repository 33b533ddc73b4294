"""Write the tables of docs/results/campaign.md, from docs/results/campaign.json alone; files of
lines that campaigns wrote are kept there first, where they are given."""

import argparse
import json
from pathlib import Path
from typing import Any

from assay.host import CHECKOUT
from assay.verify import marked_tables as tables

PAGE = CHECKOUT / "docs/results/campaign.md"
RESULTS = CHECKOUT / "docs/results/campaign.json"


def keep(*files: Path) -> None:
    """Replace the results by the lines of campaigns, without the bytes of inputs."""
    kept = [json.loads(text) for file in files for text in file.read_text().splitlines()]
    rows = [json.dumps({k: v for k, v in line.items() if k != "input"}) for line in kept]
    RESULTS.write_text("[\n" + ",\n".join(rows) + "\n]\n")


def written(text: str) -> str:
    """The page with every marked table made anew."""
    return tables.written(text, {"mutations": mutations, "studies": studies})


def mutations() -> str:
    """Formats with the ends of their inputs, and all of them together."""
    heads = ("format", "inputs", "read", "refused", "findings", "inputs a second", "seed")
    counted = ("inputs", "read", "refused", "findings")
    lines = [line for line in _lines() if line["part"] == "mutations" and "inputs" in line]
    rows = [
        (f"`{line['format']}`", *(f"{line[key]:,}" for key in counted),
         f"{line['inputs'] / line['seconds']:.0f}", str(line["seed"]))
        for line in lines
    ]  # fmt: skip
    sums = (f"{sum(line[key] for line in lines):,}" for key in counted)
    return _table(heads, [*rows, ("all", *sums, "", "")])


def studies() -> str:
    """Studies of each part, with the places or kinds of what happened to them."""
    heads = ("part", "seed", "studies", "disturbed", "met", "findings", "minutes")
    rows = [
        (f"`{line['part']}`", str(line["seed"]), f"{line['studies']:,}",
         f"{sum(line['met'].values()):,}",
         ", ".join(f"{place} {count:,}" for place, count in sorted(line["met"].items())),
         str(line["findings"]), f"{line['seconds'] / 60:.1f}")
        for line in _lines()
        if "met" in line
    ]  # fmt: skip
    return _table(heads, rows)


def _lines() -> list[dict[str, Any]]:
    return [line for line in json.loads(RESULTS.read_text()) if "finding" not in line]


def _table(heads: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    marks = ("---",) * len(heads)
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (heads, marks, *rows))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m campaign.page", description=__doc__)
    parser.add_argument("lines", nargs="*", type=Path, help="files that campaigns wrote with --out")
    if files := parser.parse_args().lines:
        keep(*files)
    PAGE.write_text(written(PAGE.read_text()))
