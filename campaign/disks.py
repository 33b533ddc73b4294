"""Studies whose disk is full at random moments, and has room again when they are resumed.

A study that cannot write ends in plain words. Nothing may be lost or doubled, and nobody is blamed:
no record of a subject that failed. The disk is a small one of its own, which takes root to mount.
"""

import ctypes
import os
import random
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from campaign.formats import add_test_modules
from campaign.spread import Effort
from campaign.studies import LEFT_S, run_studies, undisturbed_walk

FILLS = 6
_DISK = "size=16m"
_NEW_MOUNTS = 0x20000  # CLONE_NEWNS: what is mounted is there for this process and its children


def run(effort: Effort, emit: Callable[[dict[str, Any]], None]) -> bool:
    """Fill disks until so many studies are done or the time is spent; True where all held."""
    if refusal := cannot_mount():
        emit({"part": "disks", "unavailable": refusal})
        return True
    add_test_modules()
    undisturbed = undisturbed_walk()

    def filled(folder: Path, number: int, draw: random.Random) -> Counter[str]:
        own_mounts()
        return fill_often(folder, draw, undisturbed)

    return run_studies("disks", filled, effort=effort, emit=emit)


def fill_often(folder: Path, draw: random.Random, undisturbed: list) -> Counter[str]:
    """Fill the disk of a study again and again; return the ways in which it ended then."""
    from killed_walk import KilledWalk

    walk, met = KilledWalk(folder, draw, LEFT_S), Counter[str]()
    walk.study.results.mkdir()
    mount(walk.study.results)
    try:
        for _ in range(FILLS):
            if walk.is_finished():
                break
            walk.start()
            walk.wait()
            shown, ballast = walk.shown(), fill(walk.study.results)
            code, words = walk.study.finish(walk.process), walk.study.stderr
            assert code in (0, 2), f"it ends with {code}: {words[-1500:]}"
            assert "Traceback" not in words, words[-1500:]
            assert code == 0 or "free some space" in words, words[-1500:]
            assert all(walk.shown()[cell] >= count for cell, count in shown.items()), "lost"
            ballast.unlink()
            met["through" if code == 0 else "stopped"] += 1
            walk.kills["disk"] += 1  # costs a batch, like a kill
        walk.finish()
        walk.check(undisturbed)
        records = walk.study.records("walk")
        assert {record.status for record in records} == {"ok"}, "somebody was blamed"
    finally:
        subprocess.run(["umount", "--lazy", str(walk.study.results)], check=True)
    return met


def fill(folder: Path) -> Path:
    """Take all room that is left on a disk; return the file that takes it."""
    ballast = folder / "ballast"
    with open(ballast, "wb", buffering=0) as file:
        for size in (1 << 20, 1 << 12):
            try:
                while file.write(bytes(size)) == size:
                    pass
            except OSError:
                continue
    return ballast


def mount(folder: Path) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", _DISK, "tmpfs", str(folder)], check=True)


def own_mounts() -> None:
    """Keep what this process mounts from all others but its children."""
    if ctypes.CDLL(None, use_errno=True).unshare(_NEW_MOUNTS):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)


def cannot_mount() -> str:
    """Why no disk can be mounted here; empty where one can."""
    with tempfile.TemporaryDirectory(prefix="campaign-") as folder:
        script = 'mount -t tmpfs tmpfs "$0"'
        command = ["unshare", "--mount", "sh", "-c", script, folder]
        try:
            done = subprocess.run(command, capture_output=True, text=True)
        except FileNotFoundError as error:
            return f"a disk of its own needs {error.filename}"
    return f"a disk of its own needs root: {done.stderr.strip()}" if done.returncode else ""
