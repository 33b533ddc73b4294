"""The stage for models: which cells it has, and what a run of it records."""

from dataclasses import replace
from pathlib import Path

import pytest
from study_process import StudyProcess

pytest.importorskip("torch")

from assay import host
from assay.correctness.models.examination import gate_names
from assay.correctness.models.selection import select
from assay.models.gpt2 import steps, variants
from assay.records.schema import CELL_SECONDS, MODEL_CACHE_BYTES
from assay.studies import kconfig
from assay.studies.cell import Cell, fingerprint
from assay.studies.stages import models

pytestmark = pytest.mark.early  # what they share takes long to set up

MINE = '''"""Models of mine."""
import os

import torch
from torch import nn
from torch.nn import functional as F


class GPT2_Leaks(nn.Module):
    """Attention without a mask, and no cache; it ends its process where it is loaded."""

    def __init__(self, config):
        super().__init__()
        self.wte = nn.Embedding(config.vocab_size, config.n_embd)
        self.wpe = nn.Embedding(config.block_size, config.n_embd)
        self.qkv = nn.Linear(config.n_embd, 3 * config.n_embd)
        self.head = nn.Linear(config.n_embd, config.vocab_size)

    def get_num_params(self):
        return sum(p.numel() for p in self.parameters())

    def forward(self, idx, targets=None):
        x = self.wte(idx) + self.wpe(torch.arange(idx.shape[1]))
        x = x + F.scaled_dot_product_attention(*self.qkv(x).chunk(3, -1))
        logits, loss = self.head(x), None
        if targets is not None:
            loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-1)
        return logits, loss

    def load_state_dict(self, *args, **options):
        os._exit(9)


class GPT2_Other(GPT2_Leaks):
    pass
'''
PART = '''"""A part of mine."""
TAG = "MINE"
SLOT = "output"


def build(config, layer, **how):
    raise RuntimeError("not today")
'''


def planned(text: str, *folders: Path) -> list[Cell]:
    return models.cells(kconfig.load(None, [f"MODELS={text}"], folders))


def test_the_family_shares_a_cell():
    (cell,) = planned("all")
    assert cell.name == models.FAMILY and len(cell.subjects) > 100
    assert cell.options["steps"]["GPT2"] == ["B", "0"]
    assert cell.probes == gate_names(()) and cell.probes[0] == "logits"


def test_what_has_code_of_the_users_has_a_cell_of_its_own(tmp_path):
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "own.py").write_text(PART)
    cells = planned(f"B,RA,{tmp_path / 'mine.py'},GPT2_MLA_MINE", tmp_path)
    assert [cell.name for cell in cells] == [
        models.FAMILY,
        "mine.py:GPT2_Leaks",
        "mine.py:GPT2_Other",
        "GPT2_MLA_MINE",
    ]


def test_a_cell_changes_with_the_files_it_depends_on(tmp_path):
    file, here = tmp_path / "mine.py", host.inspect()
    file.write_text(MINE)
    first, other = planned(str(file))
    before = fingerprint("models", first, here)
    assert before == fingerprint("models", planned(str(file))[0], here)
    assert before != fingerprint("models", other, here)
    file.write_text(MINE + "\n# edited\n")
    # Digests are kept for the length of a process, so the edited file is another one.
    copy = tmp_path / "sub" / "mine.py"
    copy.parent.mkdir()
    copy.write_text(file.read_text())
    assert before != fingerprint("models", planned(str(copy))[0], here)


def test_parts_count_for_the_family():
    (cell,) = planned("GPT2_MLA_KV,GPT2_RACT")
    names = {path.name for path in cell.files}
    assert {"mla.py", "splice.py", "cross_token_gate.py", "mla_latent.py"} <= names


@pytest.fixture(scope="module")
def ran(tmp_path_factory) -> StudyProcess:
    folder = tmp_path_factory.mktemp("models")
    (folder / "mine.py").write_text(MINE)
    study = StudyProcess(folder=folder)
    assert study.run("models", MODELS="MLAKV,fast,1,mine.py:GPT2_Leaks") == 1, study.stderr
    return study


def test_every_part_passes_every_gate_that_applies(ran):
    family = [r for r in ran.records("models") if r.cell == models.FAMILY]
    assert not [r for r in family if r.status not in ("ok", "unsupported")]
    tags = {tag for r in family if r.workload for tag in r.workload.spec["parts"]}
    assert tags == set(variants.parts())
    passed = {r.metric for r in family if r.status == "ok"}
    assert set(gate_names(())) <= passed


def test_there_is_a_record_for_each_model_and_gate(ran):
    gates = gate_names(())
    records = {(r.subject, r.metric): r for r in ran.records("models") if r.metric != CELL_SECONDS}
    for subject in ("GPT2", "GPT2_MLA_KV"):
        statuses = {gate: records[subject, gate].status for gate in gates}
        assert set(statuses.values()) <= {"ok", "unsupported"}, statuses
    assert records["GPT2_MLA_KV", "splice"].status == "ok"
    assert records["GPT2", "splice"].status == "unsupported" and records["GPT2", "splice"].reason
    assert records["GPT2", "parameters"].value == 124_475_904
    assert records["GPT2", "cache_bytes_per_token"].value == 12 * 1536 * 2
    assert records["GPT2_MLA_KV", "cache_bytes_per_token"].value == 12 * 128 * 2
    assert records["GPT2_MLA_KV", "parameters"].workload.spec["parts"] == ["MLA", "KV"]
    assert records["GPT2_MLA_KV", "parameters"].workload.spec["steps"] == ["MLAKV"]


def test_what_does_not_apply_makes_no_cell_unsupported(ran):
    ends = {r.cell: r.status for r in ran.records("models") if r.metric == CELL_SECONDS}
    assert ends.pop(models.FAMILY) == "ok"
    assert set(ends.values()) == {"failed"}


def test_a_broken_model_fails_the_gate_that_is_about_it(ran):
    by_gate = {r.metric: r for r in ran.records("models") if r.subject == "mine.py:GPT2_Leaks"}
    failed = [gate for gate, r in by_gate.items() if r.status == "failed"]
    assert failed == ["causality", "checkpoint"]
    assert "move" in by_gate["causality"].reason and "leak" in by_gate["causality"].cause
    assert "exit code 9" in by_gate["checkpoint"].reason  # and what was found before it is kept
    assert by_gate["cached"].status == "unsupported"


@pytest.mark.slow
def test_all_of_the_family_passes(tmp_path):
    """135 models: every step, every sound pair of mechanisms, their variations."""
    study = StudyProcess(folder=tmp_path)
    assert study.run("models", MODELS="all") == 0, study.stderr
    subjects = {r.subject for r in study.records("models") if r.metric == "logits"}
    assert {variant.name for variant in variants.pairs()} < subjects


@pytest.mark.slow
def test_one_that_hangs_is_ended_and_its_other_gates_are_left(tmp_path):
    hang = "class GPT2_Hangs(GPT2_Leaks):\n    def forward(self, *given):\n        while 1: pass\n"
    (tmp_path / "mine.py").write_text(f"{MINE}\n\n{hang}")
    study = StudyProcess(folder=tmp_path)
    assert study.run("models", MODELS="B,mine.py:GPT2_Hangs", CASE_TIMEOUT_S=10) == 1, study.stderr
    by_metric = {r.metric: r for r in study.records("models") if r.subject.startswith("mine")}
    assert by_metric["logits"].status == "timeout" and by_metric["step"].status == "skipped"
    assert study.ends("models")[models.FAMILY].status == "ok"


def test_every_step_of_the_registry_is_in_the_matrix_of_its_study():
    for name, family in (("gpt2-steps", "named"), ("gpt2-ratio", "ratio")):
        (cell,) = models.cells(kconfig.load(kconfig.defconfig(name)))
        listed = [id for ids in cell.options["steps"].values() for id in ids]
        wanted = [step.id for step in steps.STEPS if step.family == family]
        assert sorted(listed) == sorted(wanted)


def test_a_study_sets_latent_and_splice_of_models_that_do_not():
    sets = ["MODELS_LATENT_WIDTH=128", "MODELS_SPLICE_RATIO=0.25"]
    entries = "GPT2,GPT2_MLA,GPT2_MLA_KV,GPT2_MLA_KV+splice_ratio=0.5,MLAKV2"
    study = kconfig.load(None, [f"MODELS={entries}", *sets])
    chosen = models.selected(study).models
    assert [model.name for model in chosen] == [
        "GPT2",
        "GPT2_MLA+d_latent=128",
        "GPT2_MLA_KV+d_latent=128+splice_ratio=0.25",
        "GPT2_MLA_KV+d_latent=128",  # its own share is the default, which no name has
        "GPT2_MLA_KV2+d_latent=128+splice_ratio=0.25",
    ]
    assert chosen[-1].steps == ()  # it is not what the step is any more
    own = kconfig.load(None, [f"MODELS={entries}"])
    assert models.selected(own) == select(own.models)


def test_the_latent_and_splice_of_a_study_are_what_is_built():
    sets = ["MODELS_LATENT_WIDTH=128", "MODELS_SPLICE_RATIO=0.25"]
    (cell,) = models.cells(kconfig.load(None, ["MODELS=GPT2_MLA_KV", *sets]))
    results = list(models.run(replace(cell, probes=("init",))))
    (size,) = [r.value for r in results if getattr(r, "metric", "") == MODEL_CACHE_BYTES]
    assert size == 12 * 128 * 0.25 * 2  # layers, kept numbers, bytes of half precision
