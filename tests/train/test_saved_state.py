"""States of a training run that somebody edited: refused in words, never with a traceback."""

import json

import pytest

torch = pytest.importorskip("torch")

from safetensors.torch import load_file

from assay.errors import BadInput
from assay.models.gpt2 import variants, weights_file
from assay.train import saved_state
from assay.train.parallel import ONE_PROCESS


def trained() -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    variant = variants.parse("GPT2")
    config = variants.config_class(variant)(
        block_size=8, vocab_size=17, n_layer=1, n_head=1, n_embd=8
    )
    model = variants.model_class(variant)(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    return model, optimizer


@pytest.fixture
def folder(tmp_path):
    model, optimizer = trained()
    position = saved_state.Position(
        step=4, seconds=1.5, micro_batch=2, data_digest="d", settings_digest="s", best_loss=None,
        best_step=None, initial_digests={},
    )  # fmt: skip
    saved_state.save(tmp_path, model, optimizer, position, ONE_PROCESS)
    return tmp_path


def restore(folder) -> None:
    saved_state.restore(folder, saved_state.last(folder), *trained())


def edit(folder, change) -> None:
    content = json.loads((folder / saved_state.LAST).read_text())
    change(content)
    (folder / saved_state.LAST).write_text(json.dumps(content))


def test_a_state_as_it_was_written_is_restored(folder):
    restore(folder)


@pytest.mark.parametrize(
    "change",
    [
        lambda o: o.pop("groups"),
        lambda o: o.update(groups=[]),
        lambda o: o.update(numbers={"x": {}}),
        lambda o: o.update(numbers={"0": 7}),
        lambda o: o.update(numbers={"99": {"step": 1}}),
        lambda o: o["groups"][0].update(params=[[]]),
        lambda o: o["groups"][0].pop("lr"),
        lambda o: o["groups"][0].update(lr="fast"),
        lambda o: o["groups"][0].update(betas=[0.9]),
        lambda o: o["groups"][0].update(amsgrad=1),
    ],
)
def test_an_optimizer_that_is_another_is_refused(folder, change):
    edit(folder, lambda content: change(content["optimizer"]))
    with pytest.raises(BadInput, match=r"last\.json holds no state of this optimizer; remove"):
        restore(folder)


@pytest.mark.parametrize(
    ("key", "tensor", "words"),
    [
        ("random.cpu", torch.zeros(8), "no random numbers"),
        ("random.cpu", torch.zeros(8, dtype=torch.uint8), "no random numbers"),
        ("optimizer.99.exp_avg", torch.zeros(1), "no state of this optimizer"),
        ("optimizer.0", torch.zeros(1), "no state of this optimizer"),
    ],
)
def test_tensors_that_no_run_wrote_are_refused(folder, key, tensor, words):
    """Their digest is right: whoever edits a file can write that as well."""
    path = folder / "step-000004.optimizer.safetensors"
    tensors = {**load_file(path), key: tensor}
    weights_file.write_tensors(path, tensors, {"format": saved_state.FORMAT})
    edit(folder, lambda content: content.update(optimizer_digest=weights_file.digest_of(tensors)))
    with pytest.raises(BadInput, match=words):
        restore(folder)


def test_a_tensor_under_another_name_is_refused(folder):
    """Adam looks for its steps when it takes over a state."""
    path = folder / "step-000004.optimizer.safetensors"
    tensors = load_file(path)
    tensors["optimizer.0.other"] = tensors.pop("optimizer.0.step")
    weights_file.write_tensors(path, tensors, {"format": saved_state.FORMAT})
    edit(folder, lambda content: content.update(optimizer_digest=weights_file.digest_of(tensors)))
    with pytest.raises(BadInput, match=r"lacks what this optimizer goes on with \(KeyError"):
        restore(folder)
