"""Wrong implementations are caught, for the right reason; sound ones are not flagged.

Each file in `defects` says what is planted, which probes may see it and a word that the likely
cause holds. Here only those probes run, in this process, so that all of it fits into `make test`;
the same files through `assay check FILE`, in processes of their own, are in `make test-full`.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

from new_process import environment

import assay
from assay import plugins

HERE = Path(__file__).parent


def files(folder: str) -> list[Path]:
    found = sorted((HERE / folder).glob("*.py"))
    assert found
    return found


def literals(path: Path) -> dict:
    return dict(plugins.find("sequence", str(path)).literals)


def words(path: Path) -> tuple[str, ...]:
    cause = literals(path)["CAUSE"]
    return (cause,) if isinstance(cause, str) else tuple(cause)


def needs_a_process(path: Path) -> bool:
    return path.stem.startswith(("hang", "crash")) or literals(path).get("ELSEWHERE", False)


IN_PROCESS = [path for path in files("defects") if not needs_a_process(path)]
ALONE = [path for path in files("defects") if needs_a_process(path)]
JAX = files("jax_defects")


def assert_told(path: Path, failures: list[tuple[str, str, str]]) -> None:
    """`failures` are probe, reason and cause of everything that failed."""
    planted = literals(path)
    assert failures, f"{planted['PLANTED']}: not caught"
    seen = {probe for probe, _, _ in failures}
    assert seen & set(planted["CAUGHT_BY"]), f"caught by {seen} only"
    assert is_explained(path, failures), told(failures)


def told(failures: list[tuple[str, str, str]]) -> str:
    return "\n".join(f"{probe}: {reason} | {cause}" for probe, reason, cause in failures)


def is_explained(path: Path, failures: list[tuple[str, str, str]]) -> bool:
    return any(word.lower() in told(failures).lower() for word in words(path))


def some(paths, *, slow):
    """All of them; those that compile for long only in the long tests."""
    return [
        pytest.param(p, id=p.stem, marks=[pytest.mark.slow] if p.stem in slow else [])
        for p in paths
    ]


# Others of their kind are among the quick ones.
LONG = {
    "mask_loop_bound",
    "mask_finite_fill",
    "mask_only_when_square",
    "grad_sign_single_query",
    "heads_decode_modulo",
}


@pytest.mark.parametrize("path", some(IN_PROCESS, slow=LONG))
def test_a_planted_defect_is_caught_and_explained(path):
    failures = []
    for probe in literals(path)["CAUGHT_BY"]:
        verdict = assay.check(str(path), probes=[probe], cases=60)
        failures += [(m.metric, m.reason, m.cause or "") for m in verdict.failures]
        if is_explained(path, failures):
            break
    assert_told(path, failures)


@pytest.mark.parametrize("path", some(JAX, slow={"jax_scale_ignored", "jax_mask_top_left"}))
def test_a_planted_defect_in_jax_is_caught_and_explained(path):
    pytest.importorskip("jax")
    probes = literals(path)["CAUGHT_BY"]
    verdict = assay.check(str(path), probes=probes, cases=12, framework="jax")
    assert_told(path, [(m.metric, m.reason, m.cause or "") for m in verdict.failures])


@pytest.mark.parametrize("path", some(files("sound"), slow={"jax_plain"}))
def test_a_sound_implementation_is_not_flagged(path):
    if missing := plugins.find("sequence", str(path)).missing:
        pytest.skip(f"needs {', '.join(missing)}")
    verdict = assay.check(str(path), quick=True)
    assert verdict, str(verdict)
    assert any(m.status == "ok" for m in verdict.measurements)


def checked(path: Path, *flags: str) -> tuple[int, list[tuple[str, str, str]], str]:
    done = subprocess.run(
        [sys.executable, "-m", "assay", "check", str(path), "--json", "--device", "cpu", *flags],
        capture_output=True,
        text=True,
        cwd=flags[-1],
        env=environment(),
        timeout=280,
    )
    records = [json.loads(line) for line in done.stdout.splitlines()]
    failures = [
        (r["metric"], r["reason"], r.get("cause") or "")
        for r in records
        if r.get("status", "ok") not in ("ok", "unsupported", "skipped") and r.get("subject")
    ]
    return done.returncode, failures, done.stderr


@pytest.mark.parametrize("path", ALONE, ids=lambda path: path.stem)
def test_what_hangs_or_ends_its_process_gets_a_verdict(path, tmp_path):
    limits = ["--set", "CASE_TIMEOUT_S=8", "--probe", ",".join(literals(path)["CAUGHT_BY"])]
    code, failures, errors = checked(path, *limits, "--out", str(tmp_path))
    assert code == 1 and "Traceback" not in errors
    assert_told(path, failures)


@pytest.mark.slow
@pytest.mark.parametrize("path", [*IN_PROCESS, *JAX], ids=lambda path: path.stem)
def test_a_default_run_catches_it(path, tmp_path):
    code, failures, _ = checked(path, "--out", str(tmp_path))
    assert code == 1
    assert_told(path, failures)


@pytest.mark.slow
@pytest.mark.parametrize("path", files("sound"), ids=lambda path: path.stem)
def test_a_default_run_flags_nothing_sound(path, tmp_path):
    code, failures, _ = checked(path, "--out", str(tmp_path))
    assert code == 0, failures
