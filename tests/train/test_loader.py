"""The loader gives what the batches are, in turn and out of it."""

import pytest
import torch

from assay.train.batches import TrainingBatches
from assay.train.loader import Loader


def test_every_step_has_its_batch(prepared):
    batches = TrainingBatches(prepared.train, seed=3, batch=4, length=16)
    loader = Loader(batches, torch.device("cpu"))
    for step in (0, 1, 1, 2, 9, 3):
        for read, wanted in zip(loader.at(step), batches.at(step), strict=True):
            assert torch.equal(read, torch.from_numpy(wanted))


def test_the_next_batch_is_read_by_the_worker(prepared, monkeypatch):
    batches = TrainingBatches(prepared.train, seed=3, batch=4, length=16)
    loader = Loader(batches, torch.device("cpu"))
    loader.at(0)
    loader._worker.submit(lambda: None).result()  # what was asked for before it is done

    def refuse(step):
        raise OSError(f"step {step} is read by nobody")

    monkeypatch.setattr(batches, "at", refuse)
    loader.at(1)
    with pytest.raises(OSError, match="step 2 is read by nobody"):
        loader.at(2)
