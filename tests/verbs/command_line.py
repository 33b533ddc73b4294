"""Runs the command line as a user does."""

import subprocess
import sys

import warm_commands
from new_process import environment

IDENTITY = (
    '"""Returns q: wrong."""\n\n\ndef attention(q, k, v, *, causal, scale):\n'
    "    return q + 0 * (k.sum() + v.sum())\n"
)
SMALL = ["--workload", "b1_h2_s17_d16"]


def assay(*arguments, cwd, hide=(), **options):
    """Run the command line; packages in `hide` are as if they were not installed."""
    surroundings = environment()
    if hide:
        lines = [f"sys.modules[{name!r}] = None" for name in hide]
        folder = cwd / "hidden"
        folder.mkdir(exist_ok=True)
        (folder / "sitecustomize.py").write_text("\n".join(["import sys", *lines]) + "\n")
        surroundings = environment(folder)
    words = [*map(str, arguments)]
    if hide or options:
        done = subprocess.run(
            [sys.executable, "-m", "assay", *words],
            cwd=cwd, env=surroundings, capture_output=True, text=True, timeout=240, **options,
        )  # fmt: skip
    else:
        done = warm_commands.run(words, cwd=cwd, env=surroundings, timeout=240)
    assert "Traceback" not in done.stderr, done.stderr
    return done
