"""`assay verify`: claims, one run, two runs; what it prints and how it ends."""

import json
import shutil
import subprocess
import sys

import pytest
from new_process import environment
from verbs.command_line import assay

from assay.host import CHECKOUT
from tools.verify import judge_pages

RUN = CHECKOUT / "evidence" / "train-ablation-h200"


def git(*arguments):
    subprocess.run(["git", "-C", CHECKOUT, *arguments], check=True, capture_output=True)


@pytest.fixture
def other(tmp_path):
    """The same run with a longer warm-up."""
    folder = shutil.copytree(RUN, tmp_path / "longer")
    text = (folder / "run.json").read_text()
    (folder / "run.json").write_text(text.replace('"TRAIN_WARMUP": "60"', '"TRAIN_WARMUP": "90"'))
    return folder


def test_one_run_passes(tmp_path):
    done = assay("verify", RUN, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("PASS  train-ablation-h200\n")


def test_two_runs_that_differ_in_a_setting_are_unfair(other, tmp_path):
    done = assay("verify", RUN, other, cwd=tmp_path)
    assert done.returncode == 1
    assert done.stdout.startswith("UNFAIR  train-ablation-h200 and longer: differences, learning")
    assert "TRAIN_WARMUP differs: 60 in train-ablation-h200; 90 in longer" in done.stdout


def test_a_named_treatment_is_fair(other, tmp_path):
    done = assay("verify", RUN, other, "--treatment", "TRAIN_WARMUP", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    findings = [json.loads(line) for line in done.stdout.splitlines()]
    assert "TRAIN_WARMUP is the treatment" in {finding["reason"] for finding in findings}


def test_a_commit_that_no_branch_of_a_remote_leads_to_is_not_public(tmp_path):
    """Of two repositories one has the run's commit, and the other the commit before it alone."""
    commit = json.loads((RUN / "run.json").read_text())["commit"]
    remotes = {"with": commit, "without": f"{commit}^"}
    for name, tip in remotes.items():
        git("init", "--quiet", "--bare", tmp_path / name)
        git("push", "--quiet", tmp_path / name, f"{tip}:refs/heads/main")
    public = assay("verify", RUN, "--remote", tmp_path / "with", cwd=tmp_path)
    assert public.returncode == 0, public.stdout
    private = assay("verify", RUN, "--remote", tmp_path / "without", cwd=tmp_path)
    assert private.returncode == 1 and private.stdout.startswith(
        "FAIL  train-ablation-h200: commit"
    )
    nowhere = assay("verify", RUN, "--remote", tmp_path / "no", "--json", cwd=tmp_path)
    assert nowhere.returncode == 1 and "cannot be asked" in nowhere.stdout


def test_all_claims_of_this_house_hold(tmp_path):
    done = assay("verify", cwd=CHECKOUT)
    assert done.returncode == 0, done.stdout
    assert done.stdout.startswith("PASS  ")


def make_verify(*files):
    command = [sys.executable, "-m", "tools.verify", *map(str, files)]
    return subprocess.run(
        command, cwd=CHECKOUT, env=environment(), capture_output=True, text=True, check=False
    )


def test_a_claim_is_measured_again():
    pytest.importorskip("torch")
    done = make_verify(CHECKOUT / "claims" / "cpu-fixed-max-gaussian.toml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "PASS  measured again: 1 confirmed" in done.stdout


def test_a_command_that_fails_is_no_confirmation(tmp_path):
    text = (CHECKOUT / "claims" / "append-speed.toml").read_text()
    file = tmp_path / "wrong.toml"
    file.write_text(text.replace("study run", "study walk"))
    done = make_verify(file)
    assert done.returncode == 1 and "FAIL  measured again: 1 not tested" in done.stdout


def test_the_pages_of_this_house_are_accounted_for(capsys, monkeypatch):
    monkeypatch.chdir(CHECKOUT)
    assert judge_pages()
    shown = capsys.readouterr().out
    assert "every figure has an account" in shown and "published figures of others" in shown


def test_a_refuted_claim_ends_in_1(tmp_path):
    text = (CHECKOUT / "claims" / "h200-train-gpt2.toml").read_text()
    file = tmp_path / "wrong.toml"
    file.write_text(text.replace("at_most = 3.689", "at_most = 3.64"))
    done = assay("verify", file, cwd=tmp_path)
    assert done.returncode == 1 and "refuted" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "there is no folder claims here"),
        (["nowhere"], "nowhere"),
        ([RUN, RUN, RUN], "3 runs were given, wanted one, or two"),
        ([RUN, CHECKOUT / "claims" / "h200-copy.toml"], "verified apart"),
        ([RUN, RUN, "--treatment", "NO_SUCH"], "the runs do not differ in a symbol of that name"),
        ([RUN, RUN, "--treatment", "TRAIN_WINDOWS"], "cannot be what is compared"),
        ([RUN, RUN, "--explain", "versions.jax=why"], "do not differ in anything of that name"),
        ([RUN, RUN, "--explain", "versions.jax"], "gives no reason; wanted NAME=WHY"),
    ],
    ids=str,
)
def test_bad_input_is_told_in_words(arguments, said, tmp_path):
    done = assay("verify", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr and "Traceback" not in done.stderr
