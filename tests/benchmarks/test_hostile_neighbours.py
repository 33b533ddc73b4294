"""The verdict of the benchmark of hostile neighbours, on ratios that are made up."""

import random

from benchmarks.hostile_neighbours import CONTROL, HARMLESS, NEIGHBOURS, PAGE, table, written


def result(**moved: float) -> dict:
    draw = random.Random(5)
    names = {**dict.fromkeys((*NEIGHBOURS, HARMLESS), 1.0), CONTROL: 2.0, **moved}
    ratios = {
        name: [by * draw.lognormvariate(0, 0.02) for _ in range(40 if name == HARMLESS else 10)]
        for name, by in names.items()
    }
    facts = {"threads": 2, "lanes": 1, "torch": "2"}
    return {"ratios": ratios, "pairs": 10, "seed": 0, **facts}


def moved_rows(text: str) -> set[str]:
    return {line.split("|")[1].strip() for line in text.splitlines() if line.endswith("| yes |")}


def test_rows_within_the_noise_have_not_moved():
    assert moved_rows(table(result())) == {CONTROL}


def test_a_row_beyond_the_noise_has_moved_in_either_direction():
    assert moved_rows(table(result(seeds=1.1, moves=0.9))) == {CONTROL, "seeds", "moves"}


def test_the_page_has_the_table_of_the_kept_results():
    assert written(PAGE.read_text()) == PAGE.read_text()
    assert moved_rows(PAGE.read_text()) == {CONTROL}
