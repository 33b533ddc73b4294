"""A fresh process says whether a kernel is right on its first call, time after time."""

from pathlib import Path

import pytest

pytest.importorskip("torch")

from bound_calls import bound, written

from assay.correctness.fresh_process import right_in_fresh_process
from assay.instruments import forks

SOUND = Path(__file__).parent.parent / "planted" / "sound"
CASE = "b1_h2_s17_d16"

RIGHT_ONCE = """\
out = eager.attention(q, k, v, causal=causal, scale=scale)
CALLS.append(1)
return out if len(CALLS) <= 2 else out + 1"""  # judged by a forward, and by a forward and backward


def right(path: Path) -> bool | None:
    call = bound(path, CASE)
    return right_in_fresh_process(call, call.workload.spec)


def test_no_question_sees_the_calls_of_another(tmp_path):
    path = written(tmp_path, "right_once", RIGHT_ONCE, head="CALLS = []")
    assert [right(path) for _ in range(3)] == [True, True, True]


def test_an_edited_kernel_is_loaded_again(tmp_path):
    path = written(tmp_path, "kernel", "return q + 1")
    assert right(path) is False
    written(tmp_path, "kernel", RIGHT_ONCE, head="CALLS = []")
    assert right(path) is True


def test_a_kernel_that_raises_is_not_right(tmp_path):
    assert right(written(tmp_path, "raising", "raise ValueError('no such tile')")) is False


def test_a_kernel_that_ends_its_process_gives_no_answer(tmp_path):
    ending = written(tmp_path, "ending", "import os; os._exit(3)")
    sound = SOUND / "eager_plain.py"
    assert [right(ending), right(sound)] == [None, True]


def test_a_killed_process_is_started_again():
    sound = SOUND / "eager_plain.py"
    assert right(sound) is True
    *_, server = forks._servers.values()
    server.process.kill()
    server.process.wait()
    assert right(sound) is True


@pytest.mark.slow
def test_jax_is_asked_the_same_way():
    pytest.importorskip("jax")
    assert [right(SOUND / "jax_plain.py") for _ in range(2)] == [True, True]
