"""Perplexity: every token once, and the same as validation and as the losses of a cache."""

from dataclasses import replace
from math import exp, log

import numpy as np
import pytest
from small_settings import SETTINGS

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from assay.errors import BadInput
from assay.models.gpt2 import variants
from assay.models.pretrained import catalog
from assay.train.evals import perplexity
from assay.train.evaluated_models import in_training, of_pretrained, opened
from assay.train.text_model import TokenRequest, generate, request_of, score_tokens
from assay.train.trainer import Trainer

TEXT = "Every query reads the keys that it may see, and nothing else. " * 4


@pytest.fixture(scope="module")
def model():
    return of_pretrained(catalog.open_model("random:llama"))


@pytest.fixture
def trainer(prepared, tmp_path):
    settings = replace(SETTINGS, steps=2, save_every=2)
    made = Trainer(settings, variants.parse("GPT2"), {}, prepared, device="cpu", folder=tmp_path)
    made.take_step()
    made.take_step()
    made.report()
    made.save()
    return made


@pytest.mark.parametrize(("window", "context"), [(16, 1), (16, 16), (17, 5), (500, 250)])
def test_every_token_is_scored_once_with_its_context(model, window, context):
    tokens = model.encode(TEXT)
    losses = perplexity.window_losses(model, tokens, window=window, context=context, start=False)
    assert sum(map(len, losses)) == len(tokens) - 1
    place = 1
    for own in losses:  # each against the plain way: one sequence, all its logits
        first = max(0, place - context)
        read = torch.tensor([tokens[first : place + len(own)]])
        logits = model.logits(read)[0, :-1].double().log_softmax(-1)
        expected = -logits.gather(-1, read[0, 1:, None])[-len(own) :, 0]
        assert own == pytest.approx(expected.numpy(), abs=1e-4)
        assert len(read[0]) - 1 <= window
        place += len(own)


def test_it_is_the_loss_of_the_validation_windows(trainer):
    """The validation stream is windows of the model's length with one token of context."""
    windows, length = trainer.validation.count, trainer.settings.length
    tokens = trainer.data.validation.window(0, windows * length + 1).tolist()
    losses = perplexity.window_losses(in_training(trainer), tokens, start=False)
    assert [float(own.mean()) for own in losses] == pytest.approx(trainer.evaluate(), abs=1e-5)
    assert trainer.model.training


def test_it_is_the_loss_of_a_text_through_the_dense_cache(model):
    from assay.quality import readers, scoring

    reader = readers.open_reader("random:llama", dtype="float32", device="cpu")
    ids = reader.token_ids(TEXT)
    windows = readers.windows_of(ids, tokens=192, window=64, source="text")
    (scores,) = scoring.score(reader, ["dense"], windows, dense="dense").values()
    for row, expected in zip(windows.tolist(), scores.nll, strict=True):
        (own,) = perplexity.window_losses(model, row, start=False)
        assert own == pytest.approx(expected, abs=1e-4)


def test_values_and_their_error(trainer, tmp_path):
    file = tmp_path / "text.txt"
    file.write_text(TEXT)
    options = {"window": 0, "context": 1, "start": True}
    scores = {s.name: s for s in perplexity.score(in_training(trainer), str(file), **options)}
    loss = scores["loss"]
    tokens, counts = loss.details["tokens"], loss.details["window_tokens"]
    assert tokens == len(TEXT) == sum(counts)  # bytes, the first among them
    assert loss.value == pytest.approx(np.average(loss.samples, weights=counts))
    residuals = [n * (s - loss.value) for s, n in zip(loss.samples, counts, strict=True)]
    n = len(counts)
    assert loss.error == pytest.approx(
        (n / (n - 1) * sum(r * r for r in residuals)) ** 0.5 / tokens
    )
    assert scores["perplexity"].value == pytest.approx(exp(loss.value))
    assert scores["perplexity"].error == pytest.approx(exp(loss.value) * loss.error)
    assert scores["bits_per_byte"].value == pytest.approx(loss.value / log(2))
    single = replace(
        in_training(trainer), length=10_000, logits=lambda t: torch.zeros(*t.shape, 320)
    )
    first, *_ = perplexity.score(single, str(file), **options)
    assert first.error is None and "single window" in first.why_no_error
    assert first.value == pytest.approx(log(320))


def test_what_cannot_be_scored_is_refused(model, tmp_path):
    file = tmp_path / "text.txt"
    file.write_text(TEXT)
    options = {"window": 0, "context": 1, "start": True}
    with pytest.raises(BadInput, match=r"no token that a text begins with.*start=False"):
        list(perplexity.score(model, str(file), **options))
    with pytest.raises(BadInput, match="wanted 1 <= context <= window <= 2048"):
        list(perplexity.score(model, str(file), **{**options, "window": 4096, "start": False}))
    file.write_text("")
    with pytest.raises(BadInput, match="is empty"):
        perplexity.check(str(file))
    broken = replace(model, logits=lambda tokens: torch.full((*tokens.shape, 256), float("nan")))
    with pytest.raises(BadInput, match="not finite"):
        score_tokens(broken, [TokenRequest(context=[1], continuation=[2])])


def test_a_batch_changes_nothing_and_spaces_go_to_the_continuation(model):
    pairs = [("a b", " c d e"), ("a longer context than that", " x"), ("ab  ", "cd")]
    requests = [request_of(model, *pair) for pair in pairs]
    assert requests[2].context == list(b"ab") and requests[2].continuation == list(b"  cd")
    together = score_tokens(model, requests)
    alone = [score_tokens(model, [request])[0] for request in requests]
    assert [s.total for s in together] == pytest.approx([s.total for s in alone], abs=1e-3)
    assert [len(s.log_likelihoods) for s in together] == [6, 2, 4]


def test_a_text_is_generated_up_to_a_stop(model):
    letters = b"say it once. And twice"

    def spelled(tokens):
        logits = torch.zeros(1, tokens.shape[1], 256)
        logits[0, -1, letters[tokens.shape[1] - 2]] = 1.0
        return logits

    fixed = replace(model, logits=spelled)
    assert generate(fixed, list(b"x:"), tokens=20, stop=[".", "!"]) == "say it once"
    assert generate(fixed, list(b"x:"), tokens=3, stop=[]) == "say"
    assert generate(replace(fixed, ends=frozenset(b" ")), list(b"x:"), tokens=9, stop=[]) == "say"


def test_a_saved_state_scores_as_the_model_that_it_was(trainer, prepared, tmp_path):
    tokens = list(TEXT.encode())
    expected = perplexity.window_losses(in_training(trainer), tokens, start=True)
    rest = {"dtype": "float32", "device": "cpu"}
    loaded = opened(str(trainer.folder), data_folder=prepared.path.parent, **rest)
    assert loaded.state["weights"] == trainer.position.weights_digest
    for own, theirs in zip(
        perplexity.window_losses(loaded, tokens, start=True), expected, strict=True
    ):
        assert own == pytest.approx(theirs, abs=1e-5)
    with pytest.raises(BadInput, match="was trained on data of the digest"):
        opened(str(trainer.folder), data_folder=tmp_path / "elsewhere", **rest)
