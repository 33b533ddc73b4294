"""Run parts of the campaign: `python -m campaign [PART ...]`; a line of JSON for each result."""

import argparse
import json
import os
import sys
from typing import Any

PARTS = ("mutations", "kills")


def main(arguments: list[str] | None = None) -> int:
    """Return 0 where nothing was found, else 1."""
    parser = argparse.ArgumentParser(prog="python -m campaign", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)}; all")
    parser.add_argument("--minutes", type=float, default=60.0, help="for all parts together")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--inputs", type=int, help="of each format, in place of minutes")
    parser.add_argument("--kills", type=int, default=2_000, help="at most, in place of minutes")
    parser.add_argument("--first", type=int, default=0, help="number of the first input or study")
    parser.add_argument("--formats", default="", help="names, with commas; all where none is given")
    parser.add_argument("--out", help="a file to append the lines to, besides printing them")
    given = parser.parse_args(arguments)
    parts = given.parts or list(PARTS)
    if unknown := [part for part in parts if part not in PARTS]:
        parser.error(f"no part {', '.join(unknown)}; there are {', '.join(PARTS)}")
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # a fork must not leave threads behind
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

    def emit(line: dict[str, Any]) -> None:
        text = json.dumps(line)
        print(text, flush=True)
        if given.out:
            with open(given.out, "a") as file:
                file.write(text + "\n")

    seconds = given.minutes * 60 / len(parts)
    clean = True
    if "mutations" in parts:
        from campaign import mutations

        names = [name for name in given.formats.split(",") if name]
        clean &= mutations.run(
            seed=given.seed, seconds=seconds, inputs=given.inputs, first=given.first, names=names,
            emit=emit,
        )  # fmt: skip
    if "kills" in parts:
        from campaign import kills

        clean &= kills.run(
            seed=given.seed, seconds=seconds, kills=given.kills, first=given.first, emit=emit
        )
    return 0 if clean else 1


if __name__ == "__main__":
    sys.exit(main())
