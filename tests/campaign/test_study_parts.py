"""Parts of the campaign that disturb studies: what does not hold is seen, and the means work."""

import json
import random
import shutil
import subprocess
import sys
import time
from collections import Counter

import pytest

from assay.plugins import find, load
from campaign import clocks, disks, plugins
from campaign.__main__ import SHARES, main
from campaign.formats import ROOT, add_test_modules
from campaign.spread import Effort
from campaign.studies import run_studies

add_test_modules()

from killed_walk import KilledWalk
from study_process import StudyProcess, is_alive


def planted(folder, number, draw):
    """A study of which something does not hold: the second raises, the third leaves a process."""
    folder.mkdir()
    assert number != 1, "a record is lost"
    if number == 2:
        environment = StudyProcess(folder=folder).process_environment()
        left = subprocess.Popen(["sleep", "60"], env=environment)
        (folder.parent.parent / "left").write_text(str(left.pid))
    return Counter({"kind": draw.randrange(1, 9)})


def test_what_does_not_hold_is_a_finding_and_nothing_is_left(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    lines = []
    effort = Effort(seed=5, first=0, count=4, processes=2)
    assert not run_studies("kills", planted, effort=effort, emit=lines.append, options="--kills 3")
    first, second, end = lines
    assert first["reason"].startswith("AssertionError at test_study_parts.py:")
    assert ": a record is lost" in first["reason"]
    assert first["repeat"] == "python -m campaign kills --seed 5 --first 1 --studies 1 --kills 3"
    assert "the end of all processes" in second["reason"] and second["study"] == 2
    assert (end["studies"], end["findings"]) == (4, 2)
    draws = [random.Random(f"5 {number}").randrange(1, 9) for number in (0, 3)]
    assert end["met"] == {"kind": sum(draws)}
    time.sleep(0.1)
    assert not is_alive(int((tmp_path / "left").read_text()))
    assert [path.name for path in tmp_path.iterdir()] == ["left"]


def test_a_study_that_goes_on_after_its_last_kill_is_waited_for(tmp_path):
    """A second process was started beside it, found the run held, and ended with 3."""
    walk = KilledWalk(tmp_path / "study", random.Random(0), 60.0)
    walk.start()
    first = walk.process
    walk.study.wait_for("walk0")
    walk.finish()
    assert walk.process is first and first.returncode == 0


def test_the_clock_of_some_processes_is_set(tmp_path):
    compiler = shutil.which("cc") or pytest.skip("no C compiler")
    library, clock = tmp_path / "clock.so", tmp_path / "clock"
    clocks.build(compiler, library)
    code = (
        "import datetime, time; print(time.time(), time.monotonic(), datetime.datetime.now().year)"
    )
    for seconds in (-3600.0, 20 * 366 * 86_400.0):
        clocks.set_clock(clock, seconds)
        environment = {"LD_PRELOAD": str(library), "CAMPAIGN_CLOCK": str(clock)}
        printed = subprocess.check_output([sys.executable, "-c", code], env=environment, text=True)
        wall, monotonic, year = map(float, printed.split())
        assert wall - time.time() == pytest.approx(seconds, abs=30)
        assert monotonic == pytest.approx(time.monotonic(), abs=30)
        assert year == time.gmtime(wall).tm_year


def test_a_disk_is_filled_to_the_last_byte(tmp_path):
    if refusal := disks.cannot_mount():
        pytest.skip(refusal)
    code = (
        "import sys; from pathlib import Path; from campaign import disks; disks.own_mounts();"
        "here = Path(sys.argv[1]); disks.mount(here); ballast = disks.fill(here)\n"
        "try: (here / 'more').write_bytes(b'x'); print('room')\n"
        "except OSError as error: print(error.strerror)\n"
        "ballast.unlink(); print((here / 'more').write_bytes(b'x'))"
    )
    printed = subprocess.check_output([sys.executable, "-c", code, str(tmp_path)], text=True)
    assert printed.splitlines() == ["No space left on device", "1"]
    assert not list(tmp_path.iterdir()), "the disk is mounted for others too"


def test_every_way_of_the_hostile_plugin_has_an_end():
    file = ROOT / "campaign/hostile_plugins/stages/hostile.py"
    assert set(load(find("stages", str(file))).WAYS) == set(plugins.ENDS)


def test_an_end_that_was_not_expected_is_seen(tmp_path, monkeypatch):
    monkeypatch.setitem(plugins.ENDS, "exits", {"ok"})
    with pytest.raises(AssertionError, match="exits is failed, not"):
        plugins.run_hostile(tmp_path / "study", ["exits"])


@pytest.mark.slow
@pytest.mark.early
@pytest.mark.parametrize("part", [part for part in SHARES if part != "mutations"])
def test_studies_hold(tmp_path, part):
    """A study or two of each part, for a slice of the campaign of about two minutes."""
    out = tmp_path / "lines"
    counts = {"kills": ["--kills", "8", "--studies", "2"], "torch_kills": ["--kills", "2"]}
    chosen = counts.get(part, ["--studies", "1"])
    assert main([part, "--processes", "2", *chosen, "--out", str(out)]) == 0, out.read_text()
    (line,) = [json.loads(text) for text in out.read_text().splitlines()]
    if "unavailable" in line:
        pytest.skip(line["unavailable"])
    assert line["disturbed"] and not line["findings"]
