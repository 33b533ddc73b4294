"""Batches: a pure function of seed and step; every window once in an epoch."""

import numpy as np
import pytest
from written_shards import write

from assay.errors import BadInput
from assay.train.batches import TrainingBatches, ValidationWindows, permutation
from assay.train.shards import Tokens

LENGTH = 4


@pytest.fixture
def tokens(tmp_path):
    """The tokens 0 to 86: 21 windows of 4 + 1, and two that no window reaches."""
    entries = write(tmp_path, "train", [np.arange(87)], "uint16", shard_tokens=10)
    return Tokens([tmp_path / entry.file for entry in entries], dtype="uint16")


def batches(tokens, seed=1, batch=3):
    return TrainingBatches(tokens, seed=seed, batch=batch, length=LENGTH)


def starts(made, steps):
    return [int(row[0]) for step in steps for row in made.at(step)[0]]


def test_targets_are_inputs_shifted_by_one(tokens):
    inputs, targets = batches(tokens).at(5)
    assert inputs.shape == targets.shape == (3, LENGTH)
    assert inputs.dtype == targets.dtype == np.int64
    np.testing.assert_array_equal(targets, inputs + 1)  # the tokens count up
    assert inputs.flags["C_CONTIGUOUS"] and targets.flags["C_CONTIGUOUS"]


def test_a_batch_is_a_function_of_seed_and_step_alone(tokens):
    forward, backward = batches(tokens), batches(tokens)
    there = [forward.at(step)[0] for step in range(40)]
    back = [backward.at(step)[0] for step in reversed(range(40))][::-1]
    np.testing.assert_array_equal(there, back)
    np.testing.assert_array_equal(batches(tokens).at(33)[0], there[33])


def test_every_window_comes_once_in_an_epoch_and_in_another_order_in_the_next(tokens):
    made = batches(tokens)
    first, second = starts(made, range(7)), starts(made, range(7, 14))
    assert sorted(first) == sorted(second) == list(range(0, 84, LENGTH))
    assert first != second and first != sorted(first)


def test_another_seed_is_another_order(tokens):
    assert starts(batches(tokens, seed=1), range(7)) != starts(batches(tokens, seed=2), range(7))


@pytest.mark.parametrize("batch", [1, 2, 5, 21, 50])
def test_the_sequences_do_not_depend_on_the_batch(tokens, batch):
    """Batches that go beyond an epoch, and one of more than two epochs, go on with the next."""
    sequence = starts(batches(tokens, batch=7), range(30))
    steps = range(210 // batch)
    assert starts(batches(tokens, batch=batch), steps) == sequence[: len(steps) * batch]


def test_the_order_is_the_same_on_every_machine():
    """Written down from NumPy 2.4 on aarch64: a change here breaks the resume of every run."""
    assert permutation(7, 0, 8).tolist() == [4, 1, 6, 3, 2, 7, 5, 0]
    assert permutation(7, 1, 8).tolist() == [3, 1, 6, 2, 5, 4, 0, 7]


def test_micro_batches_are_the_rows_of_a_batch(tokens):
    made = batches(tokens, batch=6)
    inputs, targets = made.at(4)
    parts = [made.at(4, slice(start, start + 2)) for start in (0, 2, 4)]
    np.testing.assert_array_equal(np.concatenate([part[0] for part in parts]), inputs)
    np.testing.assert_array_equal(np.concatenate([part[1] for part in parts]), targets)
    assert made.at(4, slice(6, 8))[0].shape == (0, LENGTH)


def test_epochs_are_counted_in_windows(tokens):
    made = batches(tokens)
    assert made.windows == 21
    assert [made.epoch(step) for step in (0, 7, 8)] == [0, 1, 24 / 21]


@pytest.mark.parametrize(
    "options, words",
    [
        ({"length": 87}, "training data has 87 tokens, a window of length 87 needs 88; give more"),
        ({"length": 0}, "a length of 0 tokens"),
        ({"batch": 0}, "a batch of 0 sequences"),
        ({"seed": -1}, "the seed -1 is not"),
        ({"seed": 2**64}, "is not from 0 to"),
    ],
)
def test_what_gives_no_batch_is_refused_in_words(tokens, options, words):
    with pytest.raises(BadInput, match=words):
        TrainingBatches(tokens, **{"seed": 0, "batch": 1, "length": 4, **options})
    with pytest.raises(ValueError, match="count from 0"):
        batches(tokens).at(-1)


def test_one_window_is_enough(tokens):
    made = TrainingBatches(tokens, seed=0, batch=2, length=86)
    assert made.windows == 1 and made.at(0)[1][:, -1].tolist() == [86, 86]


@pytest.mark.parametrize("count", [0, 5, 21, 100])
@pytest.mark.parametrize("batch", [1, 2, 21, 64])
def test_the_validation_stream_is_the_same_for_any_batch(tokens, batch, count):
    windows = ValidationWindows(tokens, length=LENGTH, count=count)
    assert windows.count == (min(count, 21) or 21)
    pairs = list(windows.batches(batch))
    inputs, targets = (np.concatenate([pair[side] for pair in pairs]) for side in (0, 1))
    np.testing.assert_array_equal(inputs.ravel(), np.arange(windows.count * LENGTH))
    np.testing.assert_array_equal(targets, inputs + 1)


def test_the_digest_of_validation_says_which_tokens_are_read(tokens, tmp_path):
    def digest(source=tokens, **options):
        return ValidationWindows(source, **{"length": LENGTH, "count": 5, **options}).digest

    changed = np.arange(87)
    changed[[20, 60]] = 7, 7
    (tmp_path / "other").mkdir()
    [entry] = write(tmp_path / "other", "train", [changed], "uint32")
    other = Tokens([tmp_path / "other" / entry.file], dtype="uint32")
    assert digest() == digest() != digest(count=6)
    assert digest() != digest(length=5) and digest() != digest(other)
    assert digest(count=4) == digest(other, count=4)  # the same tokens, in another dtype


def test_too_little_validation_is_refused_in_words(tokens):
    with pytest.raises(BadInput, match="the validation data has 87 tokens"):
        ValidationWindows(tokens, length=100, count=0)
    with pytest.raises(BadInput, match=r"-1 validation windows .* 0 for all"):
        ValidationWindows(tokens, length=4, count=-1)


def test_a_loss_of_a_few_windows_is_refused_unless_so_few_are_wanted(tokens):
    few = ValidationWindows(tokens, length=20, count=64)
    assert few.count == 4
    few.require(3)
    for wanted in (0, 64):
        with pytest.raises(BadInput, match="which are 4 windows of 20; at least 16 are wanted"):
            few.require(wanted)
