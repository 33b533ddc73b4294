"""One more of anything is one more file: those of one_more/, in a folder of a user's own.

One each of implementation, framework, probe, stage with its table, figure, part, layout, gate,
layer and decode kernel. Nothing else is edited for any of them.
"""

import json
import shutil
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("jax")

from verbs.command_line import assay

SOURCES = Path(__file__).parent / "one_more"


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return shutil.copytree(SOURCES, tmp_path_factory.mktemp("one_more") / "mine")


def records_of(*arguments, cwd, plugins):
    done = assay(*arguments, "--plugins", plugins, "--json", cwd=cwd)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_all_are_listed_without_being_imported(folder, tmp_path):
    done = assay("list", "--plugins", folder, "--json", cwd=tmp_path)
    listed = {row["name"] for line in done.stdout.splitlines() if (row := json.loads(line))}
    assert {file.stem for file in SOURCES.rglob("*.py")} <= listed


def test_an_implementation_its_framework_a_probe_and_a_figure(folder, tmp_path):
    records = records_of(
        "bench", "by_hand", "--vs", "eager", "--workload", "b1_h4_kv2_q5_k9_d8_causal_float32",
        "--probe", "accuracy,latency,heads", "--quick", "--device", "cpu",
        cwd=tmp_path, plugins=folder,
    )  # fmt: skip
    ours = {r["metric"]: r for r in records if r.get("subject") == "by_hand"}
    assert ours["error_over_budget_out"]["value"] <= 1
    assert ours["latency_ms"]["source"].startswith("host clock, by NumPy's framework")
    assert ours["heads"]["value"] == 4
    pytest.importorskip("plotly")  # without it there is no page
    [page] = tmp_path.glob("results/bench/*/report.html")
    assert "Heads" in page.read_text()


def test_a_wrong_one_in_the_new_framework_fails_its_check(folder, tmp_path):
    text = (folder / "sequence" / "by_hand.py").read_text()
    wrong = folder / "sequence" / "top_left.py"
    wrong.write_text(text.replace("columns - rows + 1", "1"))
    done = assay(
        "check", "top_left", "--quick", "--dtype", "float32", "--device", "cpu",
        "--probe", "causality,shapes",
        "--plugins", folder, cwd=tmp_path,
    )  # fmt: skip
    wrong.unlink()
    assert done.returncode == 1 and "top_left" in done.stdout


def test_a_stage_brings_its_table(folder, tmp_path):
    done = assay("study", "run", "--plugins", folder, "--set", "STAGES=sizes", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Sizes of things" in done.stdout and "30 cm" in done.stdout
    [page] = tmp_path.glob("results/*/*/report.md")
    assert "Sizes of things" in page.read_text()


def test_a_part_its_layout_and_a_gate(folder, tmp_path):
    records = records_of("check", "--models", "GPT2_OWN", cwd=tmp_path, plugins=folder)
    gates = {r["metric"]: r for r in records if r.get("subject") == "GPT2_OWN"}
    assert gates["counted"]["value"] > 1000 and gates["cached"].get("status", "ok") == "ok"
    assert {r.get("status", "ok") for r in gates.values()} <= {"ok", "unsupported"}


@pytest.mark.slow
def test_a_layer(folder, tmp_path):
    records = records_of(
        "study", "run", "--set", "STAGES=layers", "--set", "LAYERS=half:xla",
        "--set", "PROBES=latency,work",
        "--set", "WORKLOADS=b1_h8_kv1_s16_d16_causal_float32", "--set", "ROUNDS=3",
        "--set", "WARMUP=1", "--set", "DEVICE_CPU=y", cwd=tmp_path, plugins=folder,
    )  # fmt: skip
    ours = {r["metric"]: r for r in records if r.get("subject") == "half:xla"}
    assert ours["latency_ms"]["value"] > 0 and ours["error_over_budget_out"]["value"] <= 1


def test_a_decode_kernel(folder, tmp_path):
    records = records_of(
        "check", "decode/sum_by_hand", "--workload", "b2_h4_kv2_q1_k70_d32_float32",
        "--device", "cpu", cwd=tmp_path, plugins=folder,
    )  # fmt: skip
    ours = {r["metric"]: r for r in records if r.get("subject") == "dense:sum_by_hand"}
    assert ours["error_over_budget_out"]["value"] <= 1
