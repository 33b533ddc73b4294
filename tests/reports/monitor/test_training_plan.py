"""The plan of a run as run.json tells it, held to the cells that the stage itself makes."""

import pytest

from assay.records.schema import SCHEMA, Run, Session
from assay.reports.monitor.plan import DEFAULT_OPTIMIZER, plan_of, trains
from assay.studies import kconfig
from assay.studies.stages import models, train
from assay.train import optimizer_choice


def run_of(config: dict[str, str]) -> Run:
    session = Session(
        number=1, started="2025-01-01T00:00:00.000Z", commit=None, dirty=None, host={}, command=[]
    )
    return Run(
        schema=SCHEMA, run="r", study="s", config=config, sessions=[session], plugins=[], reasons={}
    )


@pytest.mark.parametrize(
    "settings",
    [
        ["MODELS=GPT2"],
        ["MODELS=GPT2,GPT2_MLA,GPT2_RA+ra_start=swapped", "TRAIN_SEEDS=3,1"],
        ["MODELS=ratio", "TRAIN_SEEDS=0"],
        ["MODELS=B,MLAKV2", "TRAIN_SEEDS=0"],
        ["MODELS=GPT2", "TRAIN_OPTIMIZERS=adamw,muon,adamwspam+theta=50+rate=2"],
    ],
    ids=lambda settings: settings[0] + settings[-1],
)
def test_the_plan_has_the_cells_of_the_stage(settings):
    study = kconfig.load(None, [*settings, "STAGES=models,train"])
    wanted = [cell.name for cell in train.cells(study)]
    examined = [model.name for model in models.selected(study).models]
    arms = {name.rpartition("/s")[0] for name in wanted}
    plan = plan_of(run_of(study.config), examined, arms)
    assert [f"{arm}/s{seed}" for arm, seed in plan.cells] == wanted
    assert plan.baseline == wanted[0].rpartition("/s")[0]
    assert trains(run_of(study.config))


def test_the_optimizer_that_is_not_named_is_the_default():
    assert DEFAULT_OPTIMIZER == optimizer_choice.DEFAULT


def test_steps_are_those_of_the_first_limit():
    study = kconfig.load(None, ["TRAIN_BATCH=4", "TRAIN_LENGTH=16", "TRAIN_STEPS=100"])
    assert plan_of(run_of(study.config), []).steps == 100
    config = {**study.config, "TRAIN_MOST_TOKENS": "1000"}
    plan = plan_of(run_of(config), [])
    assert (plan.steps, plan.tokens_per_step) == (16, 64)


def test_what_is_due_next():
    plan = plan_of(run_of({"TRAIN_STEPS": "100"}), [])
    due = [plan.next_multiple(step, 40) for step in (0, 39, 40, 99, 100)]
    assert due == [40, 40, 80, 100, None]
    assert plan.next_multiple(5, None) is None


@pytest.mark.parametrize("text", ["", "many", "-1", "1e9", "9" * 40, "٣"])
def test_a_number_that_cannot_be_read_is_unknown(text):
    plan = plan_of(run_of({"TRAIN_STEPS": text, "TRAIN_SEEDS": f'"{text}"', "MODELS": '"A"'}), [])
    assert plan.steps is None and plan.cells == ()


def test_a_plan_without_end_is_cut():
    many = ",".join(map(str, range(3000)))
    plan = plan_of(run_of({"TRAIN_SEEDS": f'"{many}"', "MODELS": f'"{many}"'}), [])
    assert len(plan.cells) == 10_000
