"""The peak of a call on the CPU, counted in a process of its own: exact, or null with a reason."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("torch")

from bound_calls import bound, written
from new_process import environment

from assay.instruments.reading import Peak
from assay.performance.memory import isolated

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/clear_refs").exists(), reason="this kernel cannot reset a process's peak"
)


@pytest.mark.parametrize("bytes_", [1, 4096, 70_000, 5 << 20])
def test_a_count_is_exact_to_the_byte(tmp_path, bytes_):
    body = f"kept = torch.empty({bytes_}, dtype=torch.uint8)\nreturn q.clone()"
    path = written(tmp_path, f"takes_{bytes_}", body, head="BACKWARD = False")
    forward, _ = isolated.peaks(bound(path, "b1_h2_s64_d32"))
    assert forward.value == bytes_ + 2 * 64 * 32 * 4


ALLOCATORS = sorted(
    {
        library.resolve()
        for name in ("libmimalloc.so*", "libjemalloc.so*", "libtcmalloc*.so*")
        for library in Path("/usr/lib").glob(f"*-linux-gnu/{name}")
    }
)
# Each peak, and what the formula of the implementation says.
PEAKS = """
from bound_calls import bound
from assay.performance.memory import formula, isolated

for name in ("eager", "sdpa_math", "flash2_torch"):
    call = bound(name, "b1_h2_s256_d32")
    for peak, training in zip(isolated.peaks(call), (False, True)):
        print(peak.value, sum(formula.parts(call, training=training).values()))
"""


@pytest.mark.parametrize("library", ALLOCATORS, ids=lambda path: path.name)
def test_the_allocator_below_makes_no_difference(library):
    """mimalloc and jemalloc keep freed pages, so that the resident size does not show them."""

    def peaks(**preloaded: str) -> list[list[int]]:
        surroundings = environment(Path(__file__).parent.parent, **preloaded)
        command = [sys.executable, "-c", PEAKS]
        done = subprocess.run(command, env=surroundings, capture_output=True, text=True, check=True)
        return [[int(word) for word in line.split()] for line in done.stdout.splitlines()]

    read = peaks(LD_PRELOAD=str(library))
    assert read == peaks()
    assert all(abs(peak - wanted) <= max(0.03 * wanted, 64 << 10) for peak, wanted in read), read


def test_memory_past_the_allocator_is_seen_by_the_second_witness(tmp_path):
    """NumPy's arrays are not torch's; only the resident size shows them."""
    body = "import numpy\nhidden = numpy.ones(100 << 20, numpy.uint8)\nreturn q.clone()"
    path = written(tmp_path, "hides", body, head="BACKWARD = False")
    forward, _ = isolated.peaks(bound(path, "b1_h2_s64_d32"))
    assert forward.value is None
    assert "16,384 B were counted, but the resident size rose by 10" in forward.reason
    assert "past the framework's allocator" in forward.reason


@pytest.mark.parametrize("share", [0, 0.5, 2])
def test_an_instrument_that_misreads_a_known_array_gives_no_peak(monkeypatch, share):
    """On ARM torch allocates through mimalloc, which keeps freed pages: the resident size of 32 MiB
    that were freed and allocated again read as 0 B, and peaks of 0 B were told as ok."""
    call = bound("eager", "b1_h1_s16_d16")
    read = int(share * (32 << 20))
    monkeypatch.setattr(
        call.framework, "counted_peak", lambda run: Peak(value=read, source="a test")
    )
    assert f"an array of 33,554,432 B reads as {read:,} B" in isolated._blindness(
        call.framework, 32 << 20, None
    )


def test_running_out_of_memory_in_the_other_process_is_raised(tmp_path):
    path = written(tmp_path, "greedy", "return torch.empty(1 << 50)")
    with pytest.raises(MemoryError, match="allocate"):
        isolated.peaks(bound(path, "b1_h1_s16_d16"))


NO_ROOM_TO_TRAIN = "if q.requires_grad:\n    {}\nreturn q + 0.0"


@pytest.mark.parametrize(
    ("short", "words"),
    [
        ("torch.empty(1 << 50)", "memory"),
        ("x = torch.ones(1 << 29)\n    import time; time.sleep(5)", "held more"),
    ],
)
def test_forward_has_a_peak_where_only_training_runs_out_of_memory(
    tmp_path, monkeypatch, short, words
):
    """Raised by the allocator, or ended from outside."""
    if "held" in words:
        monkeypatch.setattr(isolated, "_available_bytes", lambda: 2 << 30)
    path = written(tmp_path, f"half{len(short)}", NO_ROOM_TO_TRAIN.format(short))
    forward, training = isolated.peaks(bound(path, "b1_h2_s512_d64"))
    assert forward.value == 2 * 512 * 64 * 4 + 12  # a 0.0 as a double and as a float
    assert training.value is None and training.status == "oom" and words in training.reason


def test_more_than_is_free_is_not_taken(tmp_path, monkeypatch):
    path = written(tmp_path, "large", "x = torch.ones(1 << 27)\nimport time; time.sleep(5)")
    monkeypatch.setattr(isolated, "_available_bytes", lambda: 400 << 20)
    with pytest.raises(MemoryError, match="held more than"):
        isolated.peaks(bound(path, "b1_h1_s16_d16"))


def test_what_fails_in_the_other_process_has_a_reason(tmp_path):
    path = written(tmp_path, "failing", "raise ValueError('not today')")
    forward, training = isolated.peaks(bound(path, "b1_h1_s16_d16"))
    assert forward.value is None and training.value is None
    assert "ValueError: not today" in forward.reason


def test_a_function_without_a_file_has_no_other_process():
    call = bound("eager", "b1_h1_s16_d16")
    nameless = replace(call, implementation=replace(call.implementation, path=None))
    forward, _ = isolated.peaks(nameless)
    assert forward.value is None and "not loaded from a file" in forward.reason
