"""Activation checkpointing computes forward twice; a record is taken once, of the first time."""

import pytest
import torch
import torch_models as made

import assay
from assay.captures.store import Store


def trained(model, path, *inputs, steps=2, **choices):
    model.train()
    with assay.capturing(model, path, **choices) as capture:
        for _ in range(steps):
            output = model(*inputs)
            loss = output if isinstance(output, torch.Tensor) else output.logits
            loss.sum().backward()
    report = capture.report()
    assert not report.dropped and not report.duplicates
    return made.records(path)


@pytest.mark.parametrize("reentrant", [False, True])
def test_no_doubles(tmp_path, reentrant):
    tensors = {}
    for how in (None, reentrant):
        torch.manual_seed(0)
        model = made.Plain(reentrant=how)
        path = tmp_path / str(how)
        records = trained(model, path, made.inputs())
        tensors[how] = [Store.open(path).read(record) for record in records]
        assert [(r.key.step, r.key.layer, r.key.call) for r in records] == [
            (step, layer, 0) for step in range(2) for layer in range(3)
        ]
        # The reentrant form runs the first time without gradients, and is training all the same.
        assert {r.phase for r in records} == {"train"}
    for plain, checkpointed in zip(tensors[None], tensors[reentrant], strict=True):
        assert {name: tensor.digest() for name, tensor in plain.items()} == {
            name: tensor.digest() for name, tensor in checkpointed.items()
        }


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("reentrant", [False, True])
def test_gradient_checkpointing_of_transformers(tmp_path, attention, reentrant):
    model = made.transformer("llama", attention)
    model.gradient_checkpointing_enable({"use_reentrant": reentrant})
    records = trained(model, tmp_path, made.tokens())
    assert [(r.key.step, r.key.layer, r.key.call) for r in records] == [
        (step, layer, 0) for step in range(2) for layer in range(3)
    ]
    assert {r.phase for r in records} == {"train"}


def test_a_whole_model_that_is_checkpointed_counts_its_steps_once(tmp_path):
    from torch.utils.checkpoint import checkpoint

    model = made.Plain(layers=2).train()
    with assay.capturing(model, tmp_path, mode="shapes"):
        for _ in range(2):
            checkpoint(model, made.inputs(), use_reentrant=False).sum().backward()
    steps = [(r.key.step, r.key.layer) for r in made.records(tmp_path)]
    assert steps == [(0, 0), (0, 1), (1, 0), (1, 1)]
