"""Growth of the verbs that read a run, to a million records, and the page of it.

python benchmarks/growth_page.py --measure FILE [--processes N] [--largest RECORDS]
python benchmarks/growth_page.py [FILE]     keeps FILE, where it is given, and writes the page

The largest runs take about 7 GB of memory and 1 GB of disk. All of it takes a quarter of an hour
with 2 processes.
"""

import argparse
import json
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent / "stages"))

from _spine.growth import SUBJECTS, VerbCost, by_series, cost, exponent, jobs

from assay import host
from assay.verify import marked_tables as tables

PAGE = host.CHECKOUT / "docs/results/growth.md"
RESULTS = host.CHECKOUT / "docs/results/growth.json"
SIZES = {
    "cells": [[1_000, 10_000], [3_000, 30_000], [10_000, 100_000]],
    "records": [[1_000, 10**k * n] for k, n in ((4, 1), (4, 3), (5, 1), (5, 3), (6, 1))],
}


def measure(*, processes: int, largest: int, scratch: Path = Path("results")) -> dict[str, Any]:
    """Costs of all verbs at sizes up to so many records, and where they were measured."""
    sizes = {grown: [size for size in SIZES[grown] if size[1] <= largest] for grown in SIZES}
    here = host.inspect()
    costs = []
    with ProcessPoolExecutor(processes) as pool:
        work = jobs(SUBJECTS, **sizes)
        for each in pool.map(partial(cost, scratch), work):
            costs.append(asdict(each))
            print(json.dumps(costs[-1]), file=sys.stderr, flush=True)
    conditions = {
        "CPU": next(device.name for device in here.devices if device.kind == "cpu"),
        "host": here.fingerprint,
        "cores": here.cores,
        "side by side": processes,
        "Python": here.versions["python"],
        "commit": here.commit,
    }
    return {"conditions": conditions, "costs": costs}


def written(text: str) -> str:
    """The page with its tables made anew."""
    made = {"conditions": conditions, "cells": partial(table, "cells")}
    return tables.written(text, {**made, "records": partial(table, "records")})


def conditions() -> str:
    """Where the figures are from."""
    return "".join(f"- {name}: {value}\n" for name, value in _kept()["conditions"].items())


def table(grown: str) -> str:
    """CPU seconds of each verb at each size, and how they grow."""
    costs = [VerbCost(**row) for row in _kept()["costs"]]
    series = {verb: each for (verb, how), each in by_series(costs).items() if how == grown}
    sizes = [f"{getattr(each, grown):,}" for each in next(iter(series.values()))]
    heads = ["verb", *(f"{size} {grown}" for size in sizes), "exponent", "peak memory"]
    rows = [
        [f"`{verb}`", *(f"{each.cpu_s:.1f} s" for each in members), f"{exponent(members):.2f}",
         f"{members[-1].peak_bytes / 1e6:,.0f} MB"]
        for verb, members in series.items()
    ]  # fmt: skip
    return "".join(f"| {' | '.join(row)} |\n" for row in (heads, ["---"] * len(heads), *rows))


def _kept() -> dict[str, Any]:
    return json.loads(RESULTS.read_text())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kept", nargs="?", type=Path, help="figures to keep")
    parser.add_argument("--measure", type=Path, metavar="FILE", help="where new figures go")
    parser.add_argument("--processes", type=int, default=1, help="side by side")
    parser.add_argument("--largest", type=int, default=1_000_000, help="records of a run, at most")
    given = parser.parse_args()
    if given.measure:
        os.environ.setdefault("OMP_NUM_THREADS", "1")
        results = measure(processes=given.processes, largest=given.largest)
        given.measure.write_text(json.dumps(results, indent=1) + "\n")
        return
    if given.kept:
        RESULTS.write_text(given.kept.read_text())
    PAGE.write_text(written(PAGE.read_text()))


if __name__ == "__main__":
    main()
