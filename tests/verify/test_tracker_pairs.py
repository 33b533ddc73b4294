"""Pairs of runs in real trackers: unfair ones are caught and named, fair ones are not blamed."""

import json

import pytest
from trackers.tracked_runs import write

from assay.errors import BadInput
from assay.verify.compared import RunComparison
from assay.verify.judgement import compare, judge
from assay.verify.trackers.runs import load, load_all

NANO = {
    "learning_rate": 6e-4, "min_lr": 6e-5, "warmup_iters": 10, "batch_size": 12,
    "gradient_accumulation_steps": 4, "block_size": 256, "max_iters": 90, "weight_decay": 0.1,
    "grad_clip": 1.0, "optimizer": "adamw", "dtype": "bfloat16", "compile": True,
    "dataset": "openwebtext", "n_layer": 6, "out_dir": "out",
}  # fmt: skip
HUGGING_FACE = {
    "learning_rate": 6e-4, "warmup_steps": 10, "per_device_train_batch_size": 6,
    "gradient_accumulation_steps": 8, "max_seq_length": 256, "max_steps": 90, "weight_decay": 0.1,
    "max_grad_norm": 1.0, "optim": "adamw_torch", "bf16": True, "fp16": False,
    "torch_compile": True, "dataset": "openwebtext", "num_hidden_layers": 6, "output_dir": "o",
}  # fmt: skip
H100 = {"name": "NVIDIA H100 80GB HBM3", "count": 1}


def arms(tag, config=NANO, *, last=90, seeds=(0, 1, 2), gpu=H100, loss="val/loss", **changes):
    """A run for each seed, as a training script logs it."""
    return [
        {
            "name": f"{tag} {seed}",
            "id": f"{tag}{seed}",
            "config": {**config, **changes, "seed": seed, "run_name": f"{tag} {seed}"},
            "rows": [
                [step, {loss: 3.1 - step / 100 + seed / 500, "lr": step * 1e-5}]
                for step in range(0, last + 1, 10)
            ],
            "gpu": gpu,
        }
        for seed in seeds
    ]


UNFAIR = {
    "rate": ({"learning_rate": 1e-3}, "learning_rate"),
    "warmup": ({"warmup_iters": 50}, "learning_rate"),
    "batch": ({"gradient_accumulation_steps": 8}, "batch"),
    "stop": ({"max_iters": 120, "last": 120}, "stop_rule"),
    "longer": ({"last": 120}, "budget"),
    "compile": ({"compile": False}, "compiled"),
    "dtype": ({"dtype": "float16"}, "dtype"),
    "dataset": ({"dataset": "fineweb"}, "dataset"),
    "gpu": ({"gpu": {"name": "NVIDIA A100-SXM4-80GB", "count": 1}}, "hardware"),
    "gpus": ({"gpu": {**H100, "count": 8}}, "hardware"),
    "seeds": ({"seeds": (3, 4, 5)}, "seeds"),
    "few": ({"seeds": (0, 1)}, "seeds"),
    "decay": ({"weight_decay": 0.0}, "optimizer"),
    "other": ({"shuffle_buffer": 7}, None),
    "layers": ({"n_layer": 12}, "differences"),
}
NO_GPU = ("gpu", "gpus")  # which trackio does not store


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """Where each of the runs above lies, in either tracker."""
    folder = tmp_path_factory.mktemp("pairs")
    written = {tag: arms(tag, **changes) for tag, (changes, _) in UNFAIR.items()}
    written |= {"base": arms("base"), "same": arms("same", out_dir="other")}
    written["hf"] = arms("hf", HUGGING_FACE, loss="eval/loss")
    runs = [{**run, "project": tag} for tag, group in written.items() for run in group]
    store, together = write("trackio", folder, *runs), write("wandb", folder, *runs)
    where = {("trackio", tag): store.with_name(f"{tag}.db") for tag in written}
    for tag, group in written.items():
        where["wandb", tag] = folder / tag / "wandb"
        where["wandb", tag].mkdir(parents=True)
        for run in group:
            (made,) = together.glob(f"offline-run-*-{run['id']}")
            made.rename(where["wandb", tag] / made.name)
    return where


def findings(*paths, **more):
    return judge(RunComparison(runs=load_all(paths), **more))


def failing(*paths, **more):
    return {finding.check for finding in findings(*paths, **more) if finding.verdict == "fails"}


@pytest.mark.parametrize("tracker", ["wandb", "trackio"])
@pytest.mark.parametrize("tag", [tag for tag, (_, check) in UNFAIR.items() if check])
def test_an_unfair_pair_is_caught_and_named(places, tracker, tag):
    if tracker == "trackio" and tag in NO_GPU:
        silent = findings(places["wandb", "base"], places["trackio", tag])
        assert {f.verdict for f in silent if f.check == "hardware"} == {"not tested"}
        return
    assert UNFAIR[tag][1] in failing(places["wandb", "base"], places[tracker, tag])


@pytest.mark.parametrize(
    "one, other",
    [
        (("wandb", "base"), ("wandb", "same")),
        (("wandb", "base"), ("trackio", "same")),
        (("trackio", "base"), ("trackio", "same")),
        (("wandb", "base"), ("wandb", "hf")),
    ],
)
def test_a_fair_pair_is_not_blamed(places, one, other):
    assert failing(places[one], places[other]) == set()


def test_every_name_that_was_read_is_given_and_what_is_not_said_is_not_taken_as_equal(places):
    made = findings(places["wandb", "base"], places["wandb", "hf"])
    names = [f.reason for f in made if f.check == "tracker_names" and f.verdict == "holds"]
    assert "TRAIN_WARMUP is warmup_iters in base" in names
    assert "TRAIN_WARMUP is warmup_steps in hf" in names
    batch = "per_device_train_batch_size × gradient_accumulation_steps × 1 devices"
    assert f"TRAIN_BATCH is {batch} in hf" in names
    unsaid = [f.reason for f in made if f.verdict == "not tested"]
    assert any("TRAIN_LEAST_LEARNING_RATE" in reason for reason in unsaid)
    assert any(reason.startswith("said by one run only") for reason in unsaid)


def test_a_key_that_one_run_alone_has_is_a_difference(places):
    """Two runs of one program, of which one begins from other weights, were once called fair."""
    made = findings(places["wandb", "base"], places["wandb", "other"])
    assert any("shuffle_buffer" in f.reason for f in made if f.verdict == "fails")


def test_a_treatment_that_is_named_is_not_blamed(places):
    assert not failing(
        places["wandb", "base"], places["wandb", "rate"], treatment=("TRAIN_LEARNING_RATE",)
    )


def test_runs_of_several_configurations_are_not_mixed(tmp_path):
    history = [{"_step": 0, "loss": 1.0}]
    runs = [
        {"name": f"lr {rate}", "id": str(rate), "config": {"lr": rate}, "history": history}
        for rate in (1, 2)
    ]
    (tmp_path / "both.json").write_text(json.dumps(runs))
    with pytest.raises(BadInput, match=r"runs that differ \(lr\): lr 1 \(1\), lr 2 \(2\)"):
        load(tmp_path / "both.json")
    assert load(tmp_path / "both.json::lr 2").run.config == {"TRAIN_LEARNING_RATE": "2"}
    gpus = [{**run, "config": {}, "metadata": {"gpu": f"GPU {run['id']}"}} for run in runs]
    (tmp_path / "both.json").write_text(json.dumps(gpus))
    with pytest.raises(BadInput, match=r"runs that differ \(gpu_name\)"):
        load(tmp_path / "both.json")
    twice = [{**run, "config": {"seed": 0}} for run in runs]
    (tmp_path / "both.json").write_text(json.dumps(twice))
    with pytest.raises(BadInput, match="several runs of one seed"):
        load(tmp_path / "both.json")


def exported(path, **changes):
    rows = [{"_step": step, "val_loss": 3.0 - step / 100} for step in range(0, 50, 10)]
    path.write_text(json.dumps({"name": path.stem, "history": rows, "config": {}, **changes}))
    return path


def test_a_run_that_says_nothing_passes_nothing(tmp_path):
    made = findings(exported(tmp_path / "a.json"), exported(tmp_path / "b.json"))
    held = {f.check for f in made if f.verdict == "holds"} - {"tracker_names"}
    assert held <= {"outcomes", "last_step"}
    assert any(f.verdict == "not tested" and "TRAIN_WARMUP" in f.reason for f in made)


FOUNDING = {
    "batch_size": 8, "gradient_accumulation": 8, "learning_rate": 6e-4, "max_time": 7200,
    "compile_model": True, "git_commit": "a" * 40,
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "check"),
    [
        ({"gradient_accumulation": 4}, "batch"),
        ({"compile_model": False}, "compiled"),
        ({"max_time": 3600}, "stop_rule"),
        ({"learning_rate": 1e-3}, "learning_rate"),
        ({"git_commit": "b" * 40}, "differences"),
        ({"devices": 4}, "hardware"),
        ({"batch_size": 4, "gradient_accumulation": 16}, None),
    ],
)
def test_the_keys_of_the_founding_check_are_read(tmp_path, change, check):
    """8x8 against 8x4 held as a batch of 8, compiled against not was not tested, and explaining
    the key made the pair fair where tested."""
    first = exported(tmp_path / "a.json", config=FOUNDING | {"devices": 1})
    second = exported(tmp_path / "b.json", config=FOUNDING | {"devices": 1} | change)
    assert check in failing(first, second) if check else not failing(first, second) - {"seeds"}
    made = findings(first, second)
    assert not any("not said" in f.reason for f in made if f.verdict == "holds")
    explained = dict.fromkeys(change, "so it is")
    if check in ("batch", "compiled", "stop_rule", "learning_rate"):
        pair = compare(load_all((first, second)), treatment=(), explained=explained)
        assert check in {f.check for f in judge(pair) if f.verdict == "fails"}


def test_an_unknown_key_that_differs_is_no_explanation(tmp_path):
    """A key of another program has no meaning here, so a reason excuses nothing."""
    first = exported(tmp_path / "a.json", config=FOUNDING | {"shuffle_buffer": 7})
    second = exported(tmp_path / "b.json", config=FOUNDING | {"shuffle_buffer": 8})
    pair = {"runs": load_all((first, second)), "explained": {"shuffle_buffer": "no matter"}}
    made = judge(compare(**pair, treatment=()))
    assert any("an unknown key" in f.reason for f in made if f.verdict == "fails")
    made = judge(compare(load_all((first, second)), treatment=["shuffle_buffer"], explained={}))
    assert "differences" not in {f.check for f in made if f.verdict == "fails"}


def test_last_losses_of_different_steps_are_noticed_without_tokens(tmp_path):
    short = [{"_step": step, "val_loss": 3.0} for step in (0, 10)]
    paths = exported(tmp_path / "a.json"), exported(tmp_path / "b.json", history=short)
    assert "last_step" in failing(*paths)


def test_a_run_that_diverged_does_not_end_with_its_last_good_loss(tmp_path):
    rows = [{"_step": step, "val_loss": 3.0 if step < 40 else "NaN"} for step in range(0, 50, 10)]
    paths = exported(tmp_path / "a.json"), exported(tmp_path / "b.json", history=rows)
    (reason,) = [
        f.reason for f in findings(*paths) if f.check == "outcomes" and f.verdict == "fails"
    ]
    assert "final_val_loss (failed)" in reason


def test_a_run_that_crashed_is_named(tmp_path):
    paths = exported(tmp_path / "a.json"), exported(tmp_path / "b.json", state="crashed")
    (reason,) = [
        f.reason for f in findings(*paths) if f.check == "outcomes" and f.verdict == "fails"
    ]
    assert "end_of_run (failed)" in reason


def test_runs_that_share_nothing_are_refused(tmp_path):
    other = exported(tmp_path / "b.json", history=[{"_step": 0, "score": 1.0}])
    with pytest.raises(BadInput, match="share no metric"):
        findings(exported(tmp_path / "a.json"), other)


@pytest.mark.parametrize(
    "config",
    [
        {"seed": [1], "batch_size": float("inf"), "lr": {"a": []}, "commit": 3},
        {"run": [], "study": {}, "stage": 1, "cell": 2, "commit": 3, "SCHEMA": None, "x": "y"},
        {"run": "r", "study": "s", "stage": "t", "cell": None, "commit": None, "SCHEMA": 1},
    ],
)
def test_strange_configurations_are_words_and_no_traceback(tmp_path, config):
    paths = exported(tmp_path / "a.json", config=config), exported(tmp_path / "b.json")
    assert findings(*paths)


def test_deep_nesting_stays_whole(tmp_path):
    deep = {"a": 1}
    for _ in range(400):
        deep = {"a": deep}
    assert findings(exported(tmp_path / "a.json", config=deep), exported(tmp_path / "b.json"))
