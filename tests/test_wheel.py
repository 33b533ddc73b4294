"""A wheel in an environment of its own, away from the checkout: it finds all that it needs.

The packages that assay depends on are those of the environment that runs the tests.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

import pytest

import assay
from assay import installation

ROOT = Path(__file__).parent.parent
TOP = ("Kconfig", "defconfigs", "pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE")
KERNEL = """
import torch
def attention(q, k, v, *, causal, scale):
    groups = q.shape[1] // k.shape[1]
    k, v = (x.repeat_interleave(groups, 1) for x in (k, v))
    scores = (q.float() @ k.float().mT) * scale
    if causal:
        seen = torch.ones(scores.shape[-2:], dtype=torch.bool).tril(k.shape[2] - q.shape[2])
        scores = scores.masked_fill(~seen, float("-inf"))
    return (torch.softmax(scores, -1).nan_to_num(0.0) @ v.float()).to(q.dtype)
"""
SMALL = ("STAGES=bench", "LENGTHS=64", "HEADS=2/2", "ROUNDS=3", "IMPLEMENTATIONS=sdpa")


def done(*command, cwd, codes=(0,), **options):
    """Run a command without the checkout's path; its output, where it ends with one of `codes`."""
    clean = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    result = subprocess.run(
        list(map(str, command)), cwd=cwd, env=clean, capture_output=True, text=True, **options
    )
    assert result.returncode in codes, result.stdout + result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    source = tmp_path_factory.mktemp("source")
    no_caches = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "assay", source / "assay", ignore=no_caches)
    for name in TOP:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, source / name)
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel")
    done(*pip, "--no-build-isolation", "--no-deps", "--no-index", "-w", "dist", ".", cwd=source)
    (built,) = (source / "dist").glob("*.whl")
    return built


@pytest.fixture(scope="module")
def project(wheel, tmp_path_factory):
    """A user's repository with an environment `env` in it that has the wheel."""
    folder = tmp_path_factory.mktemp("project")
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@example.org")
    done("git", "init", "-q", cwd=folder)
    done(*git, "commit", "-q", "--allow-empty", "-m", "the user's", cwd=folder)
    done(sys.executable, "-m", "venv", "--without-pip", "env", cwd=folder)
    pip = (sys.executable, "-m", "pip", "--python", "env/bin/python", "install")
    done(*pip, "--no-deps", "--no-index", wheel, cwd=folder)
    # A path of packages alone: a .pth file in it, as that of an editable assay, is not read.
    (site_of(folder) / "packages.pth").write_text(sysconfig.get_path("purelib") + "\n")
    (folder / "my.py").write_text(KERNEL)
    return folder


def site_of(project):
    (site,) = project.glob("env/lib/python*/site-packages")
    return site


def test_the_wheel_is_what_runs(project):
    code = "import assay; print(assay.__file__)"
    file = Path(done("env/bin/python", "-c", code, cwd=project).strip())
    assert file.is_relative_to(project) and (file.parent / "py.typed").is_file()
    assert "sdpa" in done("env/bin/assay", "list", "sequence", cwd=project)
    names = {
        line.split()[0]
        for line in done("env/bin/assay", "config", "list", cwd=project).split("\n")
        if line
    }
    assert names == {path.name for path in (ROOT / "defconfigs").iterdir()} - {"gallery"}


def test_a_kernel_is_checked(project):
    pytest.importorskip("torch")
    shown = done("env/bin/assay", "check", "my.py", "--probe", "accuracy", "--quick", cwd=project)
    assert "accuracy" in shown


def test_a_study_runs_and_says_which_wheel_it_ran(project):
    """In a folder of a user's repository, whose commit says nothing about assay."""
    pytest.importorskip("torch")
    sets = [word for entry in SMALL for word in ("--set", entry)]
    done("env/bin/assay", "study", "run", "--config", "quickstart", *sets, cwd=project)
    (run,) = (project / "results" / "quickstart").iterdir()
    assert (run / "report.html").is_file()
    (run / "report.html").unlink()
    done("env/bin/assay", "report", run, cwd=project)
    assert "<style>" in (run / "report.html").read_text()
    facts = json.loads((run / "run.json").read_text())
    assert facts["commit"] is None and facts["dirty"] is False
    assert f"a wheel of assay {assay.__version__}, its files sha256:" in facts["reasons"]["commit"]
    assert facts["versions"]["assay"].startswith(f"{assay.__version__}, wheel ")
    verdict = done("env/bin/assay", "verify", run, "--json", cwd=project, codes=(0, 1))
    findings = [json.loads(line) for line in verdict.splitlines()]
    blamed = {finding["check"] for finding in findings if finding["verdict"] == "fails"}
    assert blamed <= {"machine_load"}, verdict  # where the tests run on a busy machine
    assert "a wheel of assay" in verdict


def test_a_file_that_was_altered_after_the_installation_is_noticed(project):
    code = "from assay import host; h = host.inspect(); print(h.dirty, h.unknown.get('clean'))"
    assert done("env/bin/python", "-c", code, cwd=project) == "False None\n"
    file = site_of(project) / "assay" / "errors.py"
    text = file.read_text()
    try:
        file.write_text(text + "\n")
        seen = done("env/bin/python", "-c", code, cwd=project)
    finally:
        file.write_text(text)
    assert seen == "True 1 files differ, such as assay/errors.py\n"


def test_a_frozen_study_is_written_beside_the_user(project):
    shown = done("env/bin/assay", "study", "freeze", "mine", "--set", "ROUNDS=9", cwd=project)
    assert "assay study run --config mine" in shown
    assert "CONFIG_ROUNDS=9" in (project / "mine").read_text()
    done("env/bin/assay", "config", "check", "--file", "mine", cwd=project)


def test_messages_take_the_name_from_pyproject():
    name = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["name"]
    assert installation.how_to_add("report") == f"pip install '{name}[report]'"
    spelt = [
        str(path)
        for path in (ROOT / "assay").rglob("*.py")
        if f"pip install '{name}" in path.read_text() or f"pip install {name}" in path.read_text()
    ]
    assert not spelt, f"{spelt} spell the distribution's name; use installation.how_to_add"


def test_every_extra_is_documented_and_those_of_messages_exist():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    calls = "".join(path.read_text() for path in (ROOT / "assay").rglob("*.py"))
    named = set(re.findall(r"how_to_add\(['\"](\w+)['\"]\)", calls))
    assert named and named <= set(extras)
    page = (ROOT / "docs" / "install.md").read_text()
    assert [name for name in extras if f"| `{name}` |" not in page] == []


def test_the_changelog_begins_with_this_version():
    lines = (ROOT / "CHANGELOG.md").read_text().splitlines()
    assert next(x for x in lines if x.startswith("## ")).split()[1] == assay.__version__
