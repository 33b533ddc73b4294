"""One real step of a study: what passes, what cannot run here, what fails and how to repeat it."""

import json
import shlex
import subprocess

import pytest
from command_line import assay
from new_process import environment

from assay.host import CHECKOUT

KERNEL = '"""A test."""\nimport os\n\n\ndef attention(q, k, v, *, causal, scale):\n    {body}\n'
SETS = ["--set", "STAGES=host,suite,bench", "--set", "LENGTHS=33,17", "--set", "HEAD_DIMS=16"]


def one_step(cwd, *sets, config=()):
    arguments = [word for entry in sets for word in ("--set", entry)]
    return assay("study", "run", "--one-step", *config, *SETS, *arguments, cwd=cwd)


def test_a_study_that_works_leaves_no_run_behind(tmp_path):
    done = one_step(tmp_path, "IMPLEMENTATIONS=eager,sdpa")
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "ok          eager on b1_h8_kv8_q17_k17_d16_causal_float32"
    assert lines[-1] == "one step of unnamed: 2 ok, 0 failed, 0 cannot run here"
    assert not list(tmp_path.rglob("run.json")) and not list(tmp_path.rglob("metrics.jsonl"))


@pytest.mark.parametrize(
    ("body", "reason", "stack"),
    [
        ("raise RuntimeError('no tile')", "RuntimeError: no tile", "RuntimeError: no tile"),
        pytest.param("os._exit(7)", "exit code 7", "", marks=pytest.mark.slow),
        pytest.param("return v.expand_as(q) * 1.0", "out", "", marks=pytest.mark.slow),
    ],
    ids=["raises", "ends its process", "is wrong"],
)
@pytest.mark.sampled
def test_a_kernel_that_fails_is_repeated_by_the_printed_command(tmp_path, body, reason, stack):
    kernel = tmp_path / "boom.py"
    kernel.write_text(KERNEL.format(body=body))
    done = one_step(tmp_path, f"IMPLEMENTATIONS=eager,{kernel}")
    assert done.returncode == 1, done.stdout + done.stderr
    failed = next(line for line in done.stdout.splitlines() if line.startswith("failed"))
    assert "boom on b1_h8" in failed and reason in failed
    log = tmp_path / done.stdout.partition("stacks: ")[2].strip()
    assert stack in log.read_text() and "boom" in log.read_text()
    again = next(line for line in done.stdout.splitlines() if "again: " in line)
    command = shlex.split(again.partition("again: ")[2])
    repeated = subprocess.run(
        command, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=240
    )
    assert repeated.returncode == 1 and failed in repeated.stdout
    assert "0 ok, 1 failed" in repeated.stdout


def test_a_kernel_with_a_backward_that_raises(tmp_path):
    kernel = tmp_path / "half.py"
    kernel.write_text(
        '"""A test."""\nimport torch\n\n\nclass Half(torch.autograd.Function):\n'
        "    @staticmethod\n    def forward(ctx, q, k, v, causal, scale):\n"
        "        return torch.nn.functional.scaled_dot_product_attention(\n"
        "            q, k, v, is_causal=causal, scale=scale)\n\n"
        "    @staticmethod\n    def backward(ctx, grad):\n        raise RuntimeError('no dq')\n\n\n"
        "def attention(q, k, v, *, causal, scale):\n"
        "    return Half.apply(q, k, v, causal, scale)\n"
    )
    done = one_step(tmp_path, f"IMPLEMENTATIONS={kernel}")
    assert done.returncode == 1 and "RuntimeError: no dq" in done.stdout


@pytest.mark.slow
def test_a_refusal_is_no_failure_and_a_workload_that_suits_is_sought(tmp_path):
    kernel = tmp_path / "picky.py"
    kernel.write_text(
        KERNEL.format(body="return eager.attention(q, k, v, causal=causal, scale=scale)")
        + "\n\ndef supports(spec, host):\n"
        "    return None if spec.kv_heads == 4 else 'only for 4 kv heads'\n"
    )
    kernel.write_text(
        kernel.read_text().replace("import os", "from assay.attention.sequence import eager")
    )
    done = one_step(tmp_path, f"IMPLEMENTATIONS=eager,{kernel}", "HEADS=8/2,8/4")
    assert done.returncode == 0, done.stdout
    assert "ok          picky on b1_h8_kv4_q17_k17_d16" in done.stdout
    refused = one_step(tmp_path, f"IMPLEMENTATIONS=eager,{kernel}")
    assert refused.returncode == 0 and "unsupported picky on" in refused.stdout
    nothing = one_step(tmp_path, f"IMPLEMENTATIONS={kernel}")
    assert nothing.returncode == 3 and "only for 4 kv heads" in nothing.stdout


@pytest.mark.slow
def test_models_layers_and_a_capture_take_their_step(tmp_path):
    model = tmp_path / "mine.py"
    model.write_text(
        "import torch\n\n\nclass GPT2_Mine(torch.nn.Module):\n"
        "    def __init__(self, config):\n        raise KeyError('no such option')\n\n"
        "    def get_num_params(self):\n        return 0\n"
    )
    sets = {
        "STAGES": "capture,layers,models",
        "MODELS": f"B,{model}",
        "LAYERS": "gemma:xla",
        "WORKLOADS": "b1_h8_kv1_s9_d256_causal_float32",
        "CAPTURE_MODEL": "random:llama",
    }
    arguments = [word for entry in sets.items() for word in ("--set", "=".join(entry))]
    done = assay("study", "run", "--one-step", "--json", *arguments, cwd=tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    results = {result["subject"]: result for result in map(json.loads, done.stdout.splitlines())}
    statuses = {subject: result["status"] for subject, result in results.items()}
    assert statuses == {
        "random:llama": "ok", "gemma:xla": "ok", "GPT2": "ok", "mine.py:GPT2_Mine": "failed",
    }  # fmt: skip
    assert f"MODELS={model}:GPT2_Mine" in results["mine.py:GPT2_Mine"]["repeat"]
    log = tmp_path / "results/unnamed/one-step/stderr.log"
    assert "KeyError: 'no such option'" in log.read_text()
    assert {path.name for path in log.parent.iterdir()} == {"stderr.log", "stdout.log"}
    assert not (tmp_path / "captures").exists()


def test_make_asks_for_one_step():
    recipe = (CHECKOUT / "Makefile").read_text()
    assert "$(if $(filter-out 0,$(DRY_RUN)),--one-step,--continue) --config .config" in recipe


@pytest.mark.slow
def test_an_arm_of_a_training_study_is_repeated_by_its_model_and_optimizer(tmp_path):
    """The arm GPT2/NAME is no model: the command names both."""
    (tmp_path / "stuck.py").write_text(
        "def make(model, settings):\n    raise ValueError('stuck')\n"
    )
    sets = ["STAGES=host,models,train", "MODELS=GPT2", "TRAIN_OPTIMIZERS=adamw,stuck.py"]
    sets += ["TRAIN_WIDTH=32", "TRAIN_LAYERS=1", "TRAIN_HEADS=2", "TRAIN_LENGTH=16"]
    sets += ["TRAIN_BATCH=2", "TRAIN_TOKENIZER=byte"]
    arguments = [word for entry in sets for word in ("--set", entry)]
    done = assay("study", "run", "--one-step", *arguments, cwd=tmp_path)
    assert done.returncode == 1 and "does not fit GPT2: stuck" in done.stdout, done.stderr
    (again,) = (line for line in done.stdout.splitlines() if "again: " in line)
    words = shlex.split(again.partition("again: ")[2])
    own = {"--set=MODELS=GPT2", f"--set=TRAIN_OPTIMIZERS={tmp_path / 'stuck.py'}"}
    assert own <= set(words)
