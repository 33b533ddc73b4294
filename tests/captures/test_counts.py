"""The books of a recording on their own: many keys, each counted once."""

import random
import sys
from itertools import product

from assay.captures.manifest import Key
from assay.captures.recording.counts import DUPLICATE, CallCounts


def keys(steps):
    return [
        Key(run="r", step=step, layer=layer, site=site, call=call)
        for step, layer, site, call in product(steps, (-1, 0, 7), ("a", "b"), (0, 1))
    ]


def test_each_key_is_accepted_once_in_any_order():
    offered = keys([0, 1, 1023, 1024, 1025, 10**12, *range(2000, 2100)]) * 2
    random.Random(0).shuffle(offered)
    books = CallCounts(max_records=None)
    answers = [books.accept(key) for key in offered]
    assert answers.count(None) == answers.count(DUPLICATE) == len(offered) // 2
    assert books.duplicates == len(offered) // 2
    assert all(books.refusal(key) == DUPLICATE for key in set(offered))


def test_a_long_run_takes_little_memory():
    """A million steps of twelve layers would fill gigabytes as tuples in a set."""
    books = CallCounts(max_records=None)
    for step in range(20_000):
        books.accept(Key(run="r", step=step, layer=0, site="a"))
    (pages,) = books._seen._pages.values()
    held = sys.getsizeof(pages) + sum(map(sys.getsizeof, pages.values()))
    assert held < 20_000
