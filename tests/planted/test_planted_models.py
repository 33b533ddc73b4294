"""Broken GPT-2 models are caught by the gate that should, and told why; sound ones pass all.

Each file in `models/defects` says what is planted, which gates may see it and a word of which the
reason holds one. They were written by someone who had not seen the gates.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

from new_process import environment

from assay import plugins
from assay.correctness.models import user_models
from assay.correctness.models.examination import run_gates

HERE = Path(__file__).parent / "models"


def files(folder: str) -> list[Path]:
    found = sorted((HERE / folder).glob("*.py"))
    assert found
    return found


def literals(path: Path) -> dict:
    return dict(plugins.find("gates", str(path)).literals)


def failures(path: Path) -> dict[str, str]:
    """Reasons by gate."""
    (name,) = user_models.model_names(path)
    found = run_gates(user_models.load(path, name))
    return {gate: finding.reason for gate, finding in found.items() if finding.status == "failed"}


@pytest.mark.parametrize("path", files("defects"), ids=lambda path: path.stem)
def test_a_planted_defect_is_caught_and_explained(path):
    planted, failed = literals(path), failures(path)
    words = planted["CAUSE"] if isinstance(planted["CAUSE"], tuple) else (planted["CAUSE"],)
    reasons = {gate: failed[gate] for gate in planted["CAUGHT_BY"] if gate in failed}
    assert reasons, f"{planted['PLANTED']}: caught by {list(failed) or 'none'}"
    told = " ".join(reasons.values()).lower()
    assert any(word.lower() in told for word in words), f"wanted {words}: {reasons}"


@pytest.mark.parametrize("path", files("sound"), ids=lambda path: path.stem)
def test_a_sound_model_is_not_flagged(path):
    assert not failures(path)


def test_every_gate_has_a_defect_that_it_alone_is_expected_to_see():
    alone = {literals(path)["CAUGHT_BY"] for path in files("defects")}
    wanted = set(plugins.listing("gates"))
    assert wanted - {gate for (gate, *others) in alone if not others} <= {"step"}
    assert any("step" in gates for gates in alone)


@pytest.mark.parametrize(
    ("name", "code"), [("defects/cache_mask_top_left.py", 1), ("sound/nanogpt.py", 0)]
)
def test_the_same_through_the_command(name, code, tmp_path):
    done = subprocess.run(
        [
            sys.executable,
            *("-m", "assay", "check", "--models", str(HERE / name), "--json", "--out", "here"),
        ],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment(),
        timeout=120,
    )
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    failed = {r["metric"] for r in map(json.loads, done.stdout.splitlines()) if r.get("cause")}
    assert ("cached" in failed) == bool(code)
