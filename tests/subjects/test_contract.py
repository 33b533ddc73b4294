"""One contract: attention, a layer and a whole model are checked and timed by the same code."""

from dataclasses import fields

import pytest
import torch

from assay import host
from assay.correctness import judge
from assay.correctness.models import tiny
from assay.models.gpt2 import variants
from assay.models.gpt2.config import GPTConfig
from assay.performance import rounds
from assay.performance.probes import latency
from assay.performance.rounds import RoundSettings
from assay.subjects import model as model_subject
from assay.subjects.contract import Subject
from assay.subjects.layers import LayerSubject
from assay.subjects.model import ModelSubject
from assay.subjects.sequence import SequenceSubject

SETTINGS = RoundSettings(rounds=3, warmup=1)


@pytest.mark.parametrize("kind", [SequenceSubject, LayerSubject, ModelSubject])
def test_a_kind_of_subject_has_every_member(kind):
    members = {field.name for field in fields(kind)} | set(dir(kind))
    wanted = set(Subject.__annotations__) | {m for m in vars(Subject) if not m.startswith("_")}
    assert "expected" in wanted and not wanted - members


def bound(pass_name):
    torch.manual_seed(0)
    model = variants.model_class("GPT2")(tiny.config(GPTConfig))
    tokens = torch.randint(tiny.config(GPTConfig).vocab_size, (2, 16))
    if pass_name == "decode":
        return model_subject.bind_decode("GPT2", model, model, tokens, "cpu")
    return model_subject.bind("GPT2", model, tokens, pass_name, "cpu")


@pytest.mark.parametrize("pass_name", ["forward", "training", "decode"])
def test_a_model_goes_through_the_judge_and_the_rounds_of_an_attention(pass_name):
    subject = bound(pass_name)
    assert all(comparison.holds for comparison in judge.compare_all(subject))
    items = list(rounds.interleaved(latency, {"GPT2": subject}, host.inspect(), SETTINGS))
    (time,) = [item for item in items if getattr(item, "metric", "") == "latency_ms"]
    assert time.subject == "GPT2" and len(time.samples) == 3 and time.level == "model"
    work, sources = subject.work()
    assert work.forward_flops > 0 and set(sources) == set(work.__dataclass_fields__)
    assert (work.backward_flops > 0) == (pass_name != "decode")
    assert (work.kv_cache_bytes > 0) == (pass_name == "decode")


def test_a_model_that_remembers_its_loss_gets_no_time(monkeypatch):
    subject = bound("forward")
    remembered = subject()
    monkeypatch.setattr(ModelSubject, "_loss", lambda self, tokens, factor: remembered)
    items = list(rounds.interleaved(latency, {"GPT2": subject}, host.inspect(), SETTINGS))
    (failed,) = [item for item in items if isinstance(item, rounds.Failed)]
    assert "a timed call gave a wrong out" in str(failed.error)
