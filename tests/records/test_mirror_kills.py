"""The run and its mirrors killed at random moments: every point is stored, and none twice."""

import os
import random
import signal
import time

import pytest
from mirror_process import TIMEOUT_S, Place, new_place
from stored_points import (
    recorded_curves,
    recorded_rest,
    trackio_curves,
    trackio_rest,
    wandb_curves,
    wandb_rest,
)

BATCHES = 60
PAUSE_S = 0.05
KILLED = -signal.SIGKILL


class Campaign:
    """Processes of a run and its mirrors, each started again when it was killed."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._processes = {name: self._start(name) for name in ("run", "wandb", "trackio")}

    def _start(self, name: str):
        if name == "run":
            return self._place.start_run(BATCHES, PAUSE_S)
        return self._place.start("--follow", "--to", name)

    def kill(self, name: str) -> bool:
        """End a process as the kernel's OOM killer would; False where it had come to its end."""
        process = self._processes[name]
        os.kill(process.pid, signal.SIGKILL)
        killed = process.wait(timeout=TIMEOUT_S) == KILLED
        self._processes[name] = self._start(name)
        return killed

    def finish(self) -> None:
        """Let the run end, wait for its mirrors, and mirror once more what one that ended while
        the run was down did not see."""
        self._place.stop.touch()
        assert self._processes["run"].wait(timeout=TIMEOUT_S) == 0
        for name in ("wandb", "trackio"):
            _, errors = self._processes[name].communicate(timeout=TIMEOUT_S)
            assert self._processes[name].returncode == 0, errors
        done = self._place.mirror("--to", "wandb,trackio")
        assert done.returncode == 0, done.stderr


def killed_at_random(place: Place, *, kills: int, seed: int) -> None:
    """A run that lasts for as long as the kills do, and what is stored compared after it."""
    moments = random.Random(seed)
    campaign = Campaign(place)
    counted = 0
    while counted < kills:
        time.sleep(moments.uniform(0.0, 4.0))
        counted += campaign.kill(moments.choice(("run", "wandb", "wandb", "trackio")))
    campaign.finish()
    curves = recorded_curves(place.run)
    assert len(curves) >= 2 * (2 * BATCHES + 2) and set(curves.values()) == {1}
    assert wandb_curves(place.run.path) == curves
    assert trackio_curves(place.trackio) == curves
    assert wandb_rest(place.run.path) == recorded_rest(place.run)
    assert trackio_rest(place.trackio) == recorded_rest(place.run)


@pytest.mark.slow
@pytest.mark.early
def test_kills_lose_and_double_nothing(tmp_path):
    killed_at_random(new_place(tmp_path), kills=30, seed=2)
