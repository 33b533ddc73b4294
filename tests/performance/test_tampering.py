"""Code that replaces what it is measured with is refused by name, and the others are not."""

import pytest

pytest.importorskip("torch")

from timed_files import PLAIN, assert_not_timed, timed

from assay.correctness import judge
from assay.instruments import guard
from assay.studies.cell import Cell, options_of
from assay.studies.stages import suite

RIGHT = "eager.attention(q, k, v, causal=causal, scale=scale)"
SLOW = f"    time.sleep(0.02)\n    return {RIGHT}\n"
# What replaces a name, and the name that is told.
REPLACED = {
    "time.perf_counter_ns = lambda: 0": "time.perf_counter_ns",
    "time.perf_counter = lambda: 0.0": "time.perf_counter",
    "torch.cuda.Event = object": "torch.cuda.Event",
    "import random; random.random = lambda: 1.0": "random.random",
    "import os; os.urandom = lambda count: count * b'z'": "os.urandom",
    "import builtins; builtins.abs = lambda value: 0": "builtins.abs",
    "import numpy; numpy.abs = lambda array: 0 * array": "numpy.abs",
    "torch.Tensor.cpu = lambda tensor: tensor * 0": "torch.Tensor.cpu",
    "torch.Tensor.__getitem__ = lambda tensor, at: tensor": "torch.Tensor.__getitem__",
    "from assay.correctness import judge; judge.compare = None": "assay.correctness.judge.compare",
    "from assay.correctness import judge; judge.worst.__code__ = judge.passed.__code__": (
        "assay.correctness.judge.worst"
    ),
    "from assay.performance.timer import Timer; Timer._look = print": "Timer._look",
    "from assay.performance import timer; timer.LOOKED_AT = 0": "timer.LOOKED_AT",
    "from assay.performance import timer; timer._urandom = lambda n: b'zz'": "timer._urandom",
    "from assay.subjects import sequence; sequence.spots = None": "assay.subjects.sequence.spots",
    "from assay.frameworks.torch import timing; timing.perf_counter_ns = int": (
        "assay.frameworks.torch.timing.perf_counter_ns"
    ),
    "import sys; sys.setprofile(lambda *event: None)": "sys.setprofile",
    "from torch.overrides import TorchFunctionMode as M; M().__enter__()": "a torch function mode",
    "from torch.utils._python_dispatch import TorchDispatchMode as M; M().__enter__()": (
        "a torch dispatch mode"
    ),
}


@pytest.mark.parametrize("patch", REPLACED)
def test_what_is_replaced_when_a_file_is_loaded(tmp_path, patch):
    source = f"{PLAIN}{patch}\ndef attention(q, k, v, *, causal, scale):\n{SLOW}"
    assert_not_timed(timed(tmp_path, source, rounds=3), REPLACED[patch])


@pytest.mark.parametrize("patch", list(REPLACED)[:3])
def test_what_is_replaced_in_a_call(tmp_path, patch):
    source = f"{PLAIN}def attention(q, k, v, *, causal, scale):\n    {patch}\n{SLOW}"
    assert_not_timed(timed(tmp_path, source, rounds=3), REPLACED[patch])


def test_a_check_is_refused_too(tmp_path):
    source = (
        f"{PLAIN}from assay.correctness import judge\n"
        "judge.compare_values = lambda tensor, *rest: judge.TensorComparison(tensor=tensor)\n"
        "def attention(q, k, v, *, causal, scale):\n    return torch.zeros_like(q)\n"
    )
    (refused,) = timed(tmp_path, source, probes="accuracy+latency", rounds=3).values()
    assert refused.status == "failed" and "judge.compare_values" in refused.reason
    assert judge.compare_values.__module__ == judge.__name__


def test_the_suite_refuses_it_too(tmp_path):
    (tmp_path / "patching.py").write_text(
        f'"""A test."""\n{PLAIN}from assay.correctness import judge\njudge.compare = print\n'
        f"def attention(q, k, v, *, causal, scale):\n    return {RIGHT}\n"
    )
    settings = suite.SuiteSettings(seed=0, dtypes=("float32",), cases=2, budget_s=9, quick=True)
    cell = Cell(
        name="suite/patching", subjects=("patching",), probes=("accuracy",),
        options=options_of(settings), plugin_folders=(tmp_path,),
    )  # fmt: skip
    _, refused = suite.run(cell)
    assert refused.status == "failed" and "judge.compare" in refused.reason


def test_nothing_is_said_of_names_that_stay_or_are_new(monkeypatch):
    import time

    guard.refuse_replaced()  # nobody watches
    with guard.watched():
        monkeypatch.setattr(time, "of_our_own", print, raising=False)
        guard.refuse_replaced()
        with pytest.raises(guard.Tampered, match=r"time\.sleep"):
            monkeypatch.setattr(time, "sleep", print)
            guard.refuse_replaced()
        assert time.sleep is not print
        guard.refuse_replaced()
