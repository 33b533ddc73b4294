"""`assay runs` as a user calls it."""

import json

import pytest
from command_line import assay

ROWS = [
    {"_step": s, "val_loss": 3 - s / 100, "_timestamp": s, "<script>": s} for s in range(0, 50, 10)
]
EVENTS = [
    {"_timestamp": t, "system.gpu.0.gpu": 90.0 if t > 10 else 0.0, "system.gpu.0.memory": 8.0}
    for t in range(0, 60, 5)
]


@pytest.fixture
def files(tmp_path):
    for seed, tag in enumerate("ab"):
        rows = [{**each, "val_loss": each["val_loss"] + seed} for each in ROWS[: 5 - seed]]
        config = {"lr": 1 + seed, "seed": 7}
        whole = {"name": tag, "id": f"{tag}1", "config": config, "history": rows, "events": EVENTS}
        (tmp_path / f"{tag}.json").write_text(json.dumps(whole))
    return tmp_path


def test_keys_lists_history_and_system_apart(files):
    done = assay("runs", "keys", "a.json", cwd=files)
    assert done.returncode == 0
    assert done.stdout.startswith("1 run: 2 metrics in history, 2 of the system\n")
    assert "<script>" in done.stdout and "system.gpu.0.memory" in done.stdout
    lines = assay("runs", "keys", "a.json", "--json", cwd=files).stdout.splitlines()
    loss = next(row for row in map(json.loads, lines) if row["metric"] == "val_loss")
    assert (loss["points"], loss["first"], loss["last"]) == (5, 0, 40)


def test_a_reading_of_the_machine_is_not_sought_where_it_is_listed(files):
    """`runs compare` sent its reader to `runs keys`, which lists exactly that key."""
    reading = ["--metric", "system.gpu.0.gpu"]
    done = assay("runs", "compare", "a.json", "b.json", *reading, cwd=files)
    assert done.returncode == 2 and "runs keys" not in done.stderr
    assert "system.gpu.0.gpu: a reading of the machine" in done.stderr and "runs gpu" in done.stderr


def test_gpu_says_what_its_readings_are(files):
    done = assay("runs", "gpu", "a.json", cwd=files)
    assert done.stdout.startswith("A a: 1 GPU, a kernel ran in 90 % of the active time\n")
    words = " ".join(done.stdout.split())
    assert "no sign of a bandwidth limit" in words and "15, 0 s" in words
    assert max(map(len, done.stdout.splitlines())) <= 100


def test_compare_is_at_the_last_common_step_and_says_so(files):
    done = assay("runs", "compare", "a.json", "b.json", "--figures", "pictures", cwd=files)
    first, second, *_ = done.stdout.splitlines()
    assert first == "val_loss at step 30: A has 2.700, the other 3.700"
    assert second.startswith("some runs go on after the last common step")
    assert {p.name for p in (files / "pictures").iterdir()} == {
        "comparison-val_loss.png", "comparison-_script.png", "overhead.png"
    }  # fmt: skip
    assert "lr" in done.stdout and all(len(line) <= 80 for line in done.stdout.splitlines())


def test_values_that_are_not_finite_are_left_out_and_counted(files):
    wild = [{**row, "val_loss": "NaN" if row["_step"] == 40 else 1.0} for row in ROWS]
    (files / "c.json").write_text(json.dumps(wild))
    done = assay("runs", "compare", "a.json", "c.json", cwd=files)
    assert "val_loss at step 30: B has 1" in done.stdout
    assert "values that are not finite are left out: 1 of val_loss in B" in done.stdout


@pytest.mark.slow
def test_pictures_of_groups_and_of_a_change_are_drawn_at_300_dpi(files):
    import matplotlib.image

    assay("runs", "compare", "a.json", "b.json", "--by", "lr", "--figures", "p", cwd=files)
    done = assay(
        "runs", "compare", "--before", "a.json", "--after", "b.json", "--figures", "p", cwd=files
    )
    assert "val_loss at step 30: 2.700 before, 3.700 after, +37.04 % over 1 pair" in done.stdout
    for name in ("grouped-val_loss.png", "before-after.png"):
        assert matplotlib.image.imread(files / "p" / name).shape[1] == 1950  # 6.5 in


def test_bad_input_is_one_message(files):
    (files / "c.json").write_text(json.dumps([{"_step": 0, "other": 1.0}]))
    (files / "d.json").write_text(json.dumps([{"name": "a", "id": "2", "history": ROWS}] * 2))
    for code, wanted, arguments in (
        (2, "share no metric", ["compare", "a.json", "c.json"]),
        (2, "one run was given", ["compare", "a.json"]),
        (2, "no source was given", ["keys"]),
        (2, "2 runs are called 'a'", ["keys", "d.json", "--run-name", "a"]),
        (2, "there is no file or folder", ["gpu", "absent"]),
        (2, "--entity needs --project", ["keys", "--entity", "e"]),
        (2, "given together", ["compare", "--before", "a.json"]),
        (3, "WANDB_API_KEY", ["keys", "--entity", "e", "--project", "p"]),
    ):
        done = assay("runs", *arguments, cwd=files)
        assert (done.returncode, wanted in done.stderr) == (code, True), done.stderr
        assert len(done.stderr.splitlines()) == 1
