"""Imports of the process that forks for a cell, and the last words of one that ended."""

import os
import subprocess
import sys

import pytest
import torch
from bound_calls import DEFAULTS

from assay.instruments import forks
from assay.studies import launching, worker_output
from assay.studies.cell import Cell

INDUCTOR, TRITON = "assay.frameworks.torch.inductor_ahead", "assay.frameworks.torch.triton_ahead"


def imports(*subjects, device, folders=(), probes=("accuracy", "latency")):
    cell = Cell(
        name="c",
        subjects=subjects,
        probes=probes,
        workload=DEFAULTS,
        device=device,
        plugin_folders=folders,
    )
    return launching.imports_of("bench", cell)


def test_the_stage_its_probes_and_frameworks_are_there_before_a_fork():
    wanted = {
        "assay.studies.stages.bench",
        "assay.correctness.probes.accuracy",
        "assay.performance.probes.latency",
        "assay.frameworks.torch",
    }
    assert wanted <= set(imports("eager", device="cpu"))


def test_compilers_are_there_for_a_gpu_and_only_for_one():
    assert {INDUCTOR, TRITON} & set(
        imports("eager_compiled", "flash2_triton", device="cpu")
    ) == set()
    assert INDUCTOR in imports("eager_compiled", device="cuda:0")
    assert TRITON in imports("flash2_triton", device="cuda:0")
    assert not {INDUCTOR, TRITON} & set(imports("eager", device="cuda:0"))


@pytest.mark.parametrize(
    ("probes", "wanted"),
    [(("accuracy", "latency"), False), (("gradients",), True), (("backward",), True)],
)
def test_what_a_backward_pass_imports_is_there_for_one(probes, wanted):
    """0.7 s, of which a forward pass needs nothing."""
    named = imports("eager", device="cpu", probes=probes)
    assert ("torch.fx.experimental.symbolic_shapes" in named) == wanted


def test_no_file_of_a_user_is_imported(tmp_path):
    (tmp_path / "mine.py").write_text(
        'IMPORTS_LATER = ("mine_too",)\ndef attention(q, k, v, *, causal, scale): ...\n'
    )
    named = imports("mine", device="cuda:0", folders=(tmp_path,))
    assert not [name for name in named if "mine" in name]


@pytest.mark.slow
def test_compilers_start_no_thread_when_they_are_imported():
    """A fork of threads may hang."""
    code = f"import threading, {INDUCTOR}; print(threading.active_count())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.stdout.split() == ["1"], done.stderr


def on_device(request):
    """In a fork of a process that has imported Inductor."""
    yield {"forked": not torch.cuda._is_in_bad_fork()}
    yield {"sum": torch.ones(3, device="cuda").sum().item()}


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_fork_has_its_device_though_inductor_was_imported_before(tmp_path, monkeypatch):
    path = os.pathsep.join([os.path.dirname(__file__), *sys.path])
    monkeypatch.setenv("PYTHONPATH", path)
    monkeypatch.setenv("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
    answers = forks.ask("test_attempt:on_device", {}, imports=[INDUCTOR], timeout_s=120)
    assert answers.values == {"forked": True, "sum": 3.0}, answers


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("first\nValueError: no\n\n", "ValueError: no"),
        ("x" * 5000 + "\nlast\n", "last"),
        ("key hf_" + "aB3" * 700 + " refused", "refused"),
        ("", ""),
    ],
)
def test_last_words_do_not_begin_within_a_key(tmp_path, text, words):
    """The end of a key alone is taken for no key, and was recorded."""
    path = tmp_path / "stderr.log"
    path.write_text("== earlier\n" + text)
    assert worker_output.last_words(path, 11) == (f"; its last line: {words}" if words else "")
