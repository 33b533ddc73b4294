"""Run parts of the campaign: `python -m campaign [PART ...]`; a line of JSON for each result."""

import argparse
import importlib
import json
import os
import sys
from typing import Any

from campaign.spread import PROCESSES, Effort

# Of the time that all parts have together.
SHARES = {
    "mutations": 0.4,
    "kills": 0.2,
    "torch_kills": 0.15,
    "disks": 0.075,
    "clocks": 0.075,
    "plugins": 0.1,
}


def main(arguments: list[str] | None = None) -> int:
    """Return 0 where nothing was found, else 1."""
    given = _given(arguments)
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # a fork must not leave threads behind
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

    def emit(line: dict[str, Any]) -> None:
        text = json.dumps(line)
        print(text, flush=True)
        if given.out:
            with open(given.out, "a") as file:
                file.write(text + "\n")

    parts = given.parts or list(SHARES)
    whole = sum(SHARES[part] for part in parts)
    clean = True
    for part in parts:
        effort = Effort(
            seed=given.seed,
            first=given.first,
            seconds=given.minutes * 60 * SHARES[part] / whole,
            count=given.inputs if part == "mutations" else given.studies,
            kills=given.kills,
            names=tuple(name for name in given.formats.split(",") if name),
            processes=given.processes,
        )
        clean &= importlib.import_module(f"campaign.{part}").run(effort, emit)
    return 0 if clean else 1


def _given(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m campaign", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(SHARES)}; all")
    parser.add_argument("--minutes", type=float, default=60.0, help="for all parts together")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--inputs", type=int, help="of all formats together, in place of minutes")
    parser.add_argument("--studies", type=int, help="of each part, in place of minutes")
    parser.add_argument("--kills", type=int, help="over all studies, in place of minutes")
    parser.add_argument("--first", type=int, default=0, help="number of the first input or study")
    parser.add_argument("--formats", default="", help="names, with commas; all where none is given")
    parser.add_argument("--processes", type=int, default=PROCESSES, help="side by side")
    parser.add_argument("--out", help="a file to append the lines to, besides printing them")
    given = parser.parse_args(arguments)
    if unknown := [part for part in given.parts if part not in SHARES]:
        parser.error(f"no part {', '.join(unknown)}; there are {', '.join(SHARES)}")
    for name in ("minutes", "inputs", "studies", "kills", "processes"):
        if (value := getattr(given, name)) is not None and value <= 0:
            parser.error(f"--{name} {value} is not above 0")
    return given


if __name__ == "__main__":
    sys.exit(main())
