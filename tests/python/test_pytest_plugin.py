"""The pytest plugin as a user's session has it: a fixture, a marker, results between sessions."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from assay.python.pytest_plugin import _grown, _read

ROOT = Path(__file__).parents[2]
KERNEL = """
import torch

def attention(q, k, v, *, causal, scale):
    k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], 1) for x in (k, v))
    scores = q.float() @ k.float().mT * scale
    return (scores.softmax(-1) @ v.float()).to(q.dtype)
"""
TESTS = """
import pytest

@pytest.mark.assay(probes=["batch", "purity"])
def test_mine(assay_check):
    assert assay_check("mine.py", dtypes=["float32"]).name == "mine"

def test_wrong(assay_check):
    assay_check("mine.py", probes=["accuracy"], dtypes=["float32"])

def test_absent(assay_check):
    assay_check("no_such_kernel")
"""


@pytest.fixture
def session(tmp_path, capsys):
    """A session of pytest in this process, which has torch: its exit code and what it prints."""
    (tmp_path / "mine.py").write_text(KERNEL)
    (tmp_path / "test_given_kernels.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    # Without the summary, which has whole messages only where CI is set.
    plugin = ("-rN", "-p", "no:assay", "-p", "assay.python.pytest_plugin", "-p", "no:cacheprovider")

    def run(*options: str) -> tuple[int, str]:
        capsys.readouterr()
        code = pytest.main(["--strict-markers", *plugin, *options, str(tmp_path)])
        sys.modules.pop("test_given_kernels", None)
        return code, capsys.readouterr().out

    return run


def test_a_wrong_kernel_fails_its_test_with_the_answer(session):
    code, printed = session()
    assert code == 1 and "2 failed, 1 passed" in printed
    assert "FAIL  mine: the causal mask is not applied; repeat: assay.check(" in printed
    assert printed.count("there is no implementation 'no_such_kernel'") == 1


def test_results_are_compared_between_sessions(session, tmp_path):
    saved = tmp_path / "made" / "checks.json"
    code, printed = session("-k", "mine", "--assay-save", str(saved))
    assert code == 0 and f"1 checks are saved to {saved}" in printed
    checks = json.loads(saved.read_text())["checks"]
    ((key, probes),) = checks.items()
    assert key == "test_given_kernels.py::test_mine mine" and set(probes) == {"batch", "purity"}
    against = ("-k", "mine", "--assay-against", str(saved))
    code, printed = session(*against)
    assert code == 0 and "1 of 1 checks are compared" in printed

    probes["batch"]["cases"] += 1
    probes["shapes"] = probes["batch"]
    saved.write_text(json.dumps({"schema": 1, "checks": checks}))
    code, printed = session(*against)
    assert code == 1 and f"mine is worse than in {saved}" in printed
    assert "batch: fewer cases" in printed and "shapes: it is no longer checked" in printed


def test_an_error_that_grew_within_its_budget_is_pointed_out():
    def checks(value: float | None, status: str = "ok") -> dict:
        return {"test mine": {"accuracy": {"status": status, "value": value}}}

    assert list(_grown(checks(0.1), checks(0.3))) == [
        "test mine: the worst error of accuracy has grown: 0.1 of its budget before, 0.3 now"
    ]
    for before, after in ((0.1, 0.15), (0.0, 0.3), (None, 0.3), (0.1, None)):
        assert not list(_grown(checks(before), checks(after)))
    assert not list(_grown(checks(0.1), checks(3.0, "failed")))
    assert not list(_grown({}, checks(0.3)))


@pytest.mark.parametrize("text", ["", "[]", '{"schema": 2, "checks": {}}', '{"schema": 1}'])
def test_a_file_that_holds_no_results_is_refused(session, tmp_path, text):
    file = tmp_path / "checks.json"
    file.write_text(text)
    with pytest.raises(pytest.UsageError, match=r"checks.json cannot be read.*--assay-save PATH"):
        _read(file)
    code, _ = session("--assay-against", str(file))
    assert code == pytest.ExitCode.USAGE_ERROR


def test_the_plugin_is_registered_and_light():
    points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    assert points["pytest11"] == {"assay": "assay.python.pytest_plugin"}
    code = "import pytest, sys; a = {*sys.modules}; import assay.python.pytest_plugin; "
    code += "print(*sorted({*sys.modules} - a))"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ended.stdout.split() == ["assay", "assay.python", "assay.python.pytest_plugin"]
