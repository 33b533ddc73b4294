"""Which parameters of a test that is marked `sampled` are in `make test`."""

import importlib.util
from itertools import product
from pathlib import Path
from types import SimpleNamespace

# By its path: folders of tests have files of this name too.
_spec = importlib.util.spec_from_file_location("top", Path(__file__).with_name("conftest.py"))
conftest = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(conftest)


def items(names, *rows):
    """Parameters as pytest keeps them, one item for each row."""
    return [
        Item(name="-".join(map(str, row)), callspec=SimpleNamespace(params=dict(zip(names, row))))
        for row in rows
    ]


class Item(SimpleNamespace):
    """An item by its identity, as pytest's are."""

    __hash__ = object.__hash__
    __eq__ = object.__eq__


def test_of_a_grid_every_value_of_every_parameter_is_chosen():
    lengths, dtypes, ways = range(9), ("float32", "float16"), (True, False)
    grid = items(("length", "dtype", "causal"), *product(lengths, dtypes, ways))
    chosen = [tuple(item.callspec.params.values()) for item in conftest._sample(grid)]
    assert grid[0] in conftest._sample(grid)
    assert [{*column} for column in zip(*chosen)] == [{*lengths}, {*dtypes}, {*ways}]
    assert len(chosen) < 2 * len(lengths), "a sample, not the grid"


def test_of_a_list_the_first_and_about_a_sixth_are_chosen():
    rows = items(("shape",), *((number,) for number in range(60)))
    chosen = conftest._sample(rows)
    assert rows[0] in chosen and 4 < len(chosen) < 18
    assert chosen == conftest._sample(rows), "the same in every worker"


def test_a_value_that_all_rows_share_does_not_hide_the_others():
    rows = items(("name", "case"), *(("eager", number) for number in range(60)))
    assert 4 < len(conftest._sample(rows)) < 18
