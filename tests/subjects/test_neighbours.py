"""Subjects beside others that change what all code of a process shares."""

import os
import random
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")
import torch
from bound_calls import DEFAULTS

from assay import host, plugins
from assay.frameworks.torch.settings import settings
from assay.instruments import shared_state
from assay.performance import calibration
from assay.performance.cell import CellRequest, run
from assay.performance.rounds import RoundSettings
from assay.records.schema import SHARED_STATE, Measurement
from assay.reports.headlines import shared_state as sentences
from assay.subjects.neighbours import kept_apart
from assay.subjects.outcome import Begin
from benchmarks.hostile_neighbours import NEIGHBOURS, write

RECURSION = 1000  # Inductor raises it in the process of other tests
LOADED, CALLED = "when it was loaded; restored for all others", "when it was called; restored"
REMARKS = {
    "one_thread": f"set torch's threads from 2 to 1 {LOADED}",
    "one_thread_later": f"set torch's threads from 2 to 1 {CALLED}",
    "variable": f"set the environment's OMP_NUM_THREADS {LOADED}",
    "no_variable": f"set the environment's HOME {CALLED}",
    "doubles": f"set torch's default dtype from torch.float32 to torch.float64 {LOADED}",
    "deterministic": f"set torch's deterministic mode from 0 to 2 {LOADED}",
    "careless": f"set NumPy's handling of over from warn to ignore {CALLED}",
    "seeds": "set Python's random numbers anew, NumPy's random numbers anew, torch's random seed "
    + CALLED,
    "moves": f" to / {LOADED}",
    "flushes": f"set torch's flushing of denormals from False to True {CALLED}",
    "plain_kernels": f"set torch's flash attention from True to False {LOADED}; set the recursion "
    f"limit from {RECURSION} to 900, Python's garbage collection from True to False, "
    f"the decimal context {CALLED}",
}
LOOKS = "SEEN.append(shared_state.values_of([*shared_state.SETTINGS, *settings()]))"
DRAWS = "random.random(); np.random.rand(20); torch.randn(3)"
SOUND = f"{DRAWS}; sys.setrecursionlimit(5000); decimal.Decimal(1) / 3"
# Probes themselves call without gradients, and silence warnings.
OURS = ("torch's gradients", "warning filters")


@pytest.fixture(scope="module")
def cell(tmp_path_factory):
    """The events of a cell with all of them, what a peer saw in its calls, and what was before."""
    folder = tmp_path_factory.mktemp("neighbours")
    for seed in (random.seed, np.random.seed, torch.seed):
        seed()  # another test may have left the very state that `seeds` sets
    for name, (on_import, in_call) in NEIGHBOURS.items():
        write(folder, name, on_import, in_call)
    write(folder, "witness", in_call=LOOKS)
    write(folder, "sound", "warnings.simplefilter('ignore')", SOUND)
    request = CellRequest(
        probes=("accuracy", "latency"),
        workload=DEFAULTS,
        subjects=("witness", *NEIGHBOURS, "sound"),
        device="cpu",
        settings=RoundSettings(warmup=1, rounds=4),
        folders=[folder],
    )
    threads, recursion = torch.get_num_threads(), sys.getrecursionlimit()
    torch.set_num_threads(2)
    sys.setrecursionlimit(RECURSION)
    try:
        before = state()
        events = list(kept_apart(run(request, host.inspect())))
        return events, sys.modules["assay_user_witness"].SEEN, before, state()
    finally:
        torch.set_num_threads(threads)
        sys.setrecursionlimit(recursion)


def state() -> dict:
    return shared_state.values_of([*shared_state.SETTINGS, *settings()])


def named(values: dict) -> dict:
    return {setting.name: value for setting, value in values.items() if setting.name not in OURS}


def test_a_peer_sees_nothing_of_them_in_any_of_its_calls(cell):
    _, seen, before, _ = cell
    assert len(seen) > 6
    assert all(named(values) == named(before) for values in seen)


def test_afterwards_everything_is_as_it_was(cell):
    _, _, before, after = cell
    assert named(after) == named(before)


@pytest.mark.parametrize("name", NEIGHBOURS)
def test_a_change_is_named(cell, name):
    remarks = [e for e in cell[0] if isinstance(e, Measurement) and e.metric == SHARED_STATE]
    (remark,) = [remark for remark in remarks if remark.subject == name]
    assert remark.reason.endswith(REMARKS[name]), remark.reason
    assert remark.status == "ok"
    assert sentences([remark, remark]) == [f"{name} {remark.reason}"]


def test_a_sound_file_is_not_remarked_upon(cell):
    remarks = {
        e.subject for e in cell[0] if isinstance(e, Measurement) and e.metric == SHARED_STATE
    }
    assert remarks == set(NEIGHBOURS)


def test_all_of_them_are_right_and_timed(cell):
    """Settings that a file made when it was loaded still hold where it is called."""
    ended = [e for e in cell[0] if isinstance(e, Measurement) and e.status != "ok"]
    assert not ended, ended[0].reason
    timed = {e.subject for e in cell[0] if isinstance(e, Measurement) and e.metric == "latency_ms"}
    assert timed >= {"witness", "sound", *NEIGHBOURS}


def steps(*turns):
    """Events of subjects whose turns are functions."""
    for subject, turn in turns:
        yield Begin(subject)
        turn()


def test_what_is_set_on_loading_holds_in_its_own_turns_alone():
    seen = []

    def look():
        seen.append(torch.get_default_dtype())

    def load():
        torch.set_default_dtype(torch.float64)

    list(kept_apart(steps(("a", load), ("b", look), ("a", look), ("b", look))))
    assert seen == [torch.float32, torch.float64, torch.float32]
    assert torch.get_default_dtype() == torch.float32


def test_what_cannot_be_put_back_is_said():
    """As torch's number of interop threads, which can be set once in a process."""
    kept = {"threads": 2}

    def refuse(_):
        raise RuntimeError("too late")

    stuck = shared_state.Setting(name="threads", read=lambda: kept["threads"], write=refuse)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shared_state, "SETTINGS", (*shared_state.SETTINGS, stuck))
        change = ("a", lambda: kept.update(threads=1))
        *_, remark = kept_apart(steps(change, ("b", int), ("a", int)))
    assert remark.subject == "a"
    assert remark.reason == (
        "set threads from 2 to 1 which cannot be restored: what came later in its process ran "
        "with it"
    )


def moved(folder):
    folder.mkdir()
    os.chdir(folder)


def test_a_working_folder_that_was_removed_is_put_back(tmp_path):
    before, gone = Path.cwd(), tmp_path / "gone"

    def remove():
        moved(gone)
        gone.rmdir()

    turns = ("a", int), ("a", remove), ("b", lambda: moved(gone)), ("b", gone.rmdir), ("b", int)
    *_, remark, _ = kept_apart(steps(*turns))
    assert Path.cwd() == before
    assert "the working folder from" in remark.reason


def test_jax_keeps_its_configuration():
    jax = pytest.importorskip("jax")
    plugins.load(plugins.find("frameworks", "jax"))

    def change():
        jax.config.update("jax_enable_x64", True)
        jax.config.update("jax_default_matmul_precision", "float32")

    *_, remark = kept_apart(steps(("a", int), ("a", change)))
    assert not jax.config.jax_enable_x64 and jax.config.jax_default_matmul_precision is None
    assert "jax_enable_x64 from False to True" in remark.reason


def test_no_subject_can_seed_our_draws():
    """A subject that seeds Python's generator would know what instruments are asked."""
    random.seed(1)
    drawn = [calibration._DRAW.random() for _ in range(3)]
    random.seed(1)
    assert drawn != [calibration._DRAW.random() for _ in range(3)]
