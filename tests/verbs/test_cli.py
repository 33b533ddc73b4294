"""The command line as a user meets it: exit codes, messages for people, never a traceback."""

import json
import os

import pytest
from command_line import SMALL, assay

from assay.plugins import how_to_install


@pytest.fixture(scope="module")
def checked(tmp_path_factory):
    """A results folder with one run in it, made without torch's help."""
    folder = tmp_path_factory.mktemp("checked")
    done = assay("check", "eager", *SMALL, cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder


BAD_INPUT = {
    "an unknown verb": (["chekc"], "no command 'chekc'; did you mean check?"),
    "an unknown defconfig": (["study", "run", "--config", "quikstart"], "did you mean quickstart"),
    "a file that is not there": (["study", "plan", "--config", "no/such"], "cannot read no/such"),
    "an unknown symbol": (["study", "plan", "--set", "LENGHTS=1"], "did you mean LENGTHS"),
    "a value out of range": (["study", "plan", "--set", "ROUNDS=1"], "out of range"),
    "an unknown plugin": (["check", "flash9"], "no implementation 'flash9'"),
    "an unknown probe": (["bench", "--probe", "speed"], "no probe 'speed'"),
    "an unknown kind": (["list", "kernels"], "no kind of plugin"),
    "an unknown device": (["check", "eager", "--device", "tpu"], "--device tpu"),
    "an unknown dtype": (["check", "eager", "--dtype", "int8"], "'int8' is not one of"),
    "a bad workload": (["check", "eager", "--workload", "b1_z3"], "'z3' is not understood"),
    "a folder that is not a run": (["report", "."], "not the folder of a run"),
    "a results folder that is not there": (["query", "SELECT 1"], "there is no results folder"),
    "a plugin folder that is not there": (["list", "--plugins", "nowhere"], "is not a folder"),
    "a file that is not there as implementation": (["check", "mine.py"], "there is no file"),
    "nothing to resume": (["study", "resume"], "there is no results folder"),
}


@pytest.mark.parametrize("what", BAD_INPUT)
def test_bad_input_exits_2_with_a_sentence(what, tmp_path):
    arguments, message = BAD_INPUT[what]
    done = assay(*arguments, cwd=tmp_path)
    assert done.returncode == 2, (done.stdout, done.stderr)
    assert message in " ".join(done.stderr.replace("│", " ").split())
    assert not (tmp_path / "results").exists(), "bad input must leave nothing behind"


def test_a_config_of_an_older_schema(tmp_path):
    (tmp_path / "old").write_text("CONFIG_SCHEMA=0\nCONFIG_GONE=y\n")
    done = assay("study", "run", "--config", "./old", cwd=tmp_path)
    assert done.returncode == 2 and "old:1" in done.stderr and "another schema" in done.stderr


def test_a_corrupt_line_in_the_middle_of_a_log(checked, tmp_path):
    import shutil

    shutil.copytree(checked / "results", tmp_path / "results")
    (log,) = tmp_path.glob("results/*/*/stages/check/metrics.jsonl")
    lines = log.read_bytes().split(b"\n")
    lines[1] = lines[1][: len(lines[1]) // 2]
    log.write_bytes(b"\n".join(lines))
    query = assay("query", "SELECT count(*) FROM records", cwd=tmp_path)
    assert query.returncode == 2 and "metrics.jsonl:2" in query.stderr
    resume = assay("study", "resume", cwd=tmp_path)
    assert resume.returncode == 2 and "metrics.jsonl:2" in resume.stderr
    (run,) = tmp_path.glob("results/*/*")
    again = assay("study", "run", "--extend", run, "--set", "LENGTHS=5", cwd=tmp_path)
    assert again.returncode == 2 and "metrics.jsonl:2" in again.stderr
    assert list(tmp_path.glob("results/*/*")) == [run]
    report = assay("report", cwd=tmp_path)
    assert report.returncode == 2 and "metrics.jsonl:2" in report.stderr
    assert "report.html" in report.stdout, "what can be read is shown all the same"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write to a read-only folder")
def test_a_read_only_folder(tmp_path):
    (tmp_path / "results").mkdir()
    (tmp_path / "results").chmod(0o500)
    done = assay("check", "eager", *SMALL, cwd=tmp_path)
    assert done.returncode == 2 and "--out DIR" in done.stderr


def test_results_where_a_file_is_in_the_way(tmp_path):
    (tmp_path / "results").write_text("not a folder")
    done = assay("check", "eager", *SMALL, cwd=tmp_path)
    assert done.returncode == 2 and "cannot write" in done.stderr
    assert (tmp_path / "results").read_text() == "not a folder"


MINIMAL = (
    "duckdb",
    "plotly",
    "matplotlib",
    "pynvml",
    "pandas",
    "scipy",
    "jax",
    "triton",
)


@pytest.mark.slow
def test_check_bench_and_doctor_need_little(tmp_path):
    """Only NumPy, msgspec, typer, rich, kconfiglib, safetensors and torch, from a checkout."""
    doctor = assay("doctor", "--no-peaks", cwd=tmp_path, hide=MINIMAL)
    assert doctor.returncode == 0 and "pip install duckdb" in doctor.stdout
    assert " implementations that need a package run here" in doctor.stdout.splitlines()[0]
    few = ["--quick", "--probe", "accuracy,latency", "--set", "STAGES=bench"]
    bench = assay("bench", "sdpa", "--vs", "eager", *few, *SMALL, cwd=tmp_path, hide=MINIMAL)
    assert bench.returncode == 0, bench.stderr
    assert "plotly is not installed" in bench.stderr and "report.md" in bench.stdout
    check = assay("check", "sdpa", *SMALL, cwd=tmp_path, hide=MINIMAL)
    assert check.returncode == 0, check.stderr
    query = assay("query", "SELECT 1", cwd=tmp_path, hide=MINIMAL)
    assert query.returncode == 3 and "DuckDB" in query.stderr


@pytest.mark.parametrize("arguments", [("study", "plan"), ("check", "sdpa")])
def test_settings_need_kconfiglib(tmp_path, arguments):
    done = assay(*arguments, cwd=tmp_path, hide=("kconfiglib",))
    assert done.returncode == 3 and "pip install kconfiglib" in done.stderr


def test_reports_need_no_torch(checked, tmp_path):
    import shutil

    shutil.copytree(checked / "results", tmp_path / "results")
    (page,) = tmp_path.glob("results/*/*/report.html")
    page.unlink()
    done = assay("report", cwd=tmp_path, hide=("torch",))
    assert done.returncode == 0, done.stderr
    assert page.is_file() and "eager" in page.read_text()


def test_query_answers_in_a_table_and_in_json(checked):
    sql = "SELECT subject, count(*) AS n FROM records WHERE metric LIKE 'error%' GROUP BY subject"
    table = assay("query", sql, cwd=checked)
    assert table.returncode == 0 and "eager" in table.stdout
    rows = [
        json.loads(line) for line in assay("query", sql, "--json", cwd=checked).stdout.splitlines()
    ]
    assert rows == [{"subject": "eager", "n": 5}]
    bad = assay("query", "SELEC 1", cwd=checked)
    assert bad.returncode == 2 and "cannot be answered" in bad.stderr


def test_plan_and_dry_run_measure_nothing(tmp_path):
    plan = assay("study", "plan", "--config", "quickstart", cwd=tmp_path)
    dry = assay("study", "run", "--config", "quickstart", "--dry-run", cwd=tmp_path)
    assert plan.returncode == dry.returncode == 0
    assert "8 cells" in plan.stdout and "b1_h8_kv2_q512" in dry.stdout.replace("\n", "")
    assert not (tmp_path / "results").exists()


def test_results_go_where_the_study_says_unless_a_flag_does(tmp_path):
    nothing = ["study", "run", "--set", "STAGES=capture", "--set", "RESULTS=mine"]
    assert assay(*nothing, cwd=tmp_path).returncode == 0
    assert list(tmp_path.glob("mine/unnamed/*/run.json")) and not (tmp_path / "results").exists()
    assert assay(*nothing, "--out", "other", cwd=tmp_path).returncode == 0
    assert list(tmp_path.glob("other/unnamed/*/run.json"))
    assert len(list(tmp_path.glob("mine/unnamed/*"))) == 1
    assert assay("report", "--out", "mine", cwd=tmp_path).returncode == 0


def test_status_and_resume_of_a_finished_run(checked):
    status = assay("study", "status", cwd=checked)
    first = status.stdout.splitlines()[0]
    assert status.returncode == 0 and "1 of 1 cells done; nothing is left to do" in first
    resume = assay("study", "resume", cwd=checked)
    assert resume.returncode == 0 and "0 cells to run, 1 kept" in resume.stderr


def test_run_json_has_every_fixed_key(checked):
    (file,) = checked.glob("results/*/*/run.json")
    run = json.loads(file.read_text())
    for key in [
        "budget",
        "batch",
        "accumulation",
        "devices",
        "compiled",
        "dtype",
        "dataset",
        "eval_stream",
        "seed",
    ]:
        assert key in run and (run[key] is not None or run["reasons"][key])
    assert run["versions"]["torch"] and run["host"] and run["sessions"][0]["command"][0] == "assay"


def test_freeze_writes_what_was_run(tmp_path):
    from assay.studies import kconfig

    name = "frozen-by-a-test"
    target = kconfig.DEFCONFIGS / name
    try:
        done = assay(
            "study", "freeze", name, "--set", "ROUNDS=9", "--set", "LENGTHS=7", cwd=tmp_path
        )
        assert done.returncode == 0, done.stderr
        assert target.read_text() == (
            f'CONFIG_STUDY="{name}"\nCONFIG_LENGTHS="7"\nCONFIG_ROUNDS=9\n'
        )
        assert kconfig.load(target).rounds == 9
        again = assay("study", "freeze", name, cwd=tmp_path)
        assert again.returncode == 2 and "exists" in again.stderr
    finally:
        target.unlink(missing_ok=True)


def test_every_verb_has_help_with_an_example(tmp_path):
    from assay import plugins

    for verb in plugins.listing("verbs"):
        done = assay(verb, "--help", cwd=tmp_path)
        assert done.returncode == 0 and "Example" in done.stdout, verb


def test_list_says_what_is_missing(tmp_path):
    done = assay("list", "sequence", cwd=tmp_path, hide=("torch",))
    assert done.returncode == 0 and "not installed: torch" in done.stdout


def test_doctor_says_what_does_not_run_here_and_why(tmp_path, monkeypatch):
    """It said yes to kernels for GPUs alone on a machine without one, and `pip install flash_attn`,
    which is no package's name."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    done = assay("doctor", "--no-peaks", cwd=tmp_path)
    rows = {line.split()[0]: line for line in done.stdout.splitlines() if "/" in line}
    words = " ".join(done.stdout.split())  # reasons go on below their rows
    assert " yes " in rows["sequence/sdpa_math"]
    assert " no " in rows["sequence/sdpa_cudnn"] and "GPUs only" in words
    assert " no " in rows["decode/sdpa_cudnn"] and "NVIDIA GPU only" in words
    assert " yes " in rows["decode/sdpa"]
    assert "pip install" not in rows["sequence/flash_attn"]
    assert "for NVIDIA GPUs alone" in words and "pip install flash" not in words
    assert how_to_install(["flash_attn", "triton"]) == "pip install flash-attn triton"


@pytest.mark.slow
def test_doctor_writes_no_line_of_a_library(tmp_path):
    """torch's profiler wrote `USDT:... profiler_start` before the answer."""
    done = assay("doctor", cwd=tmp_path, hide=["no_such_package"])  # in a process of its own
    assert done.returncode == 0 and done.stdout and "profiler_start" not in done.stderr


def test_doctor_as_json(tmp_path):
    described = json.loads(assay("doctor", "--no-peaks", "--json", cwd=tmp_path).stdout)
    assert described["devices"][0]["kind"] == "cpu" and described["fingerprint"]


def test_plan_and_status_as_json(checked):
    plan = assay("study", "plan", "--config", "quickstart", "--json", cwd=checked).stdout
    cells = [json.loads(line) for line in plan.splitlines()]
    assert len(cells) == 8
    assert {cell["stage"] for cell in cells} == {"host", "suite", "bench"}
    status = assay("study", "resume", "--dry-run", "--json", cwd=checked).stdout
    assert [json.loads(line)["state"] for line in status.splitlines()] == ["done"]


def test_a_frozen_study_cannot_leave_its_folder(tmp_path):
    done = assay("study", "freeze", "../elsewhere", cwd=tmp_path)
    assert done.returncode == 2 and "cannot name a folder" in done.stderr


@pytest.mark.slow
def test_make_starts_anew_where_an_old_run_cannot_be_read(tmp_path):
    old = tmp_path / "results" / "unnamed" / "20200101T000000.000Z-0000"
    old.mkdir(parents=True)
    (old / "run.json").write_text('{"schema": 0}')
    sets = ["--set", "STAGES=check", "--set", "LENGTHS=5", "--set", "IMPLEMENTATIONS=eager"]
    first = assay("study", "run", "--continue", *sets, cwd=tmp_path)
    again = assay("study", "run", "--continue", *sets, cwd=tmp_path)
    assert first.returncode == again.returncode == 0, first.stderr + again.stderr
    assert "1 cell to run" in first.stderr and "0 cells to run, 1 kept" in again.stderr
    assert (old / "run.json").read_text() == '{"schema": 0}'
