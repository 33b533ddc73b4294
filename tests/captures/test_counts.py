"""Counts of a recording on their own: many keys, each counted once."""

import random
import sys
from itertools import product

from assay.captures.manifest import Key
from assay.captures.recording.counts import CallCounts


def keys(steps):
    return [
        Key(run="r", step=step, layer=layer, site=site, call=call)
        for step, layer, site, call in product(steps, (-1, 0, 7), ("a", "b"), (0, 1))
    ]


def test_each_key_is_accepted_once_in_any_order():
    offered = keys([0, 1, 1023, 1024, 1025, 10**12, *range(2000, 2100)]) * 2
    random.Random(0).shuffle(offered)
    counts = CallCounts(max_records=None)
    accepted = [counts.accept(key) for key in offered]
    assert accepted.count(True) == len(offered) // 2
    assert counts.duplicates == len(offered) // 2
    assert all(counts.refuse(key) for key in set(offered)) and not counts.dropped()


def test_a_long_run_takes_little_memory():
    """A million steps of twelve layers would fill gigabytes as tuples in a set."""
    counts = CallCounts(max_records=None)
    for step in range(20_000):
        counts.accept(Key(run="r", step=step, layer=0, site="a"))
    (pages,) = counts._seen._pages.values()
    held = sys.getsizeof(pages) + sum(map(sys.getsizeof, pages.values()))
    assert held < 20_000
