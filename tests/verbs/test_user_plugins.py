"""Files of a user's own on the command line, and those that a run of someone else names."""

import pytest
from command_line import IDENTITY, SMALL, assay


@pytest.fixture
def foreign_run(tmp_path):
    """A run from someone else, with plugins of every kind that leave a trace when they are run."""
    trace = f"open({str(tmp_path / 'executed')!r}, 'a').write(__name__)\n"
    bodies = {
        "stages/evil.py": "def cells(study):\n    return []\n\n\ndef run(cell):\n    return []\n",
        "figures/evil_figure.py": "def draw(records):\n    return []\n",
    }
    for name, body in bodies.items():
        (tmp_path / "plugins" / name).parent.mkdir(parents=True)
        (tmp_path / "plugins" / name).write_text(f'"""A test."""\n{trace}{body}')
    kernel = tmp_path / "evil_file.py"
    kernel.write_text(trace + IDENTITY)
    sets = ["--set", "STAGES=evil", "--set", f"IMPLEMENTATIONS={kernel}"]
    done = assay("study", "run", "--plugins", "plugins", *sets, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (tmp_path / "executed").unlink()
    return tmp_path


@pytest.mark.parametrize(
    "verb", [["report"], ["study", "status"], ["study", "resume", "--dry-run"], ["study", "resume"]]
)
def test_a_run_from_someone_else_executes_nothing(foreign_run, verb):
    """Its run.json named plugin folders, and report, status and resume imported what lay there."""
    done = assay(*verb, cwd=foreign_run)
    assert not (foreign_run / "executed").exists()
    assert done.returncode == (0 if verb == ["report"] else 2)
    assert "plugins" in done.stdout + done.stderr
    assert "--trust-plugins" in done.stdout + done.stderr
    trusting = assay(*verb, "--trust-plugins", cwd=foreign_run)
    assert trusting.returncode == 0, trusting.stderr
    assert (foreign_run / "executed").exists()


def test_the_status_of_a_run_with_ones_own_kernel_needs_no_trust(tmp_path):
    """It asked for --trust-plugins, though what is recorded can be told without running a file."""
    kernel = tmp_path / "mine.py"
    kernel.write_text(IDENTITY)
    assert assay("check", kernel, "--probe", "shapes", cwd=tmp_path).returncode == 1
    kernel.write_text("open('executed', 'a')\n" + IDENTITY)
    done = assay("study", "status", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "not running; what is left is shown by assay study resume" in done.stdout
    assert "suite" in done.stdout and "failed" in done.stdout
    assert not (tmp_path / "executed").exists()
    assert assay("study", "resume", "--dry-run", cwd=tmp_path).returncode == 2


def test_plugins_from_the_command_line_need_no_trust_in_the_run(foreign_run):
    kernel = foreign_run / "evil_file.py"
    given = ["--plugins", "plugins", "--plugins", str(kernel)]
    done = assay("study", "status", *given, cwd=foreign_run)
    assert done.returncode == 0, done.stderr


@pytest.mark.sampled
@pytest.mark.parametrize(
    "arguments", [("study", "plan"), ("check", "sdpa", "--dry-run"), ("list",)], ids=" ".join
)
@pytest.mark.parametrize("kind", ["probes", "gates", "stages", "tables"])
def test_a_users_file_that_cannot_be_parsed_gives_no_traceback(tmp_path, kind, arguments):
    """The literals of such a file were missing: KeyError, and one of our own files was blamed."""
    (tmp_path / kind).mkdir()
    (tmp_path / kind / "broken.py").write_text("def measure(")
    done = assay(*arguments, "--plugins", tmp_path, cwd=tmp_path)
    assert done.returncode in (0, 2) and "KeyError" not in done.stderr
    assert done.returncode == 0 or "broken.py cannot be read as Python" in done.stderr


def test_a_probe_of_correctness_may_return_dicts(tmp_path):
    """docs/plugins.md allows them; the process ended, and the implementation was blamed."""
    (tmp_path / "half.py").write_text(
        "STAGE = 'check'\n\n\ndef cases(generator):\n    return [generator.spec()]\n\n\n"
        "def measure(call, workload, host):\n"
        "    return [{'metric': 'half', 'value': 0.5, 'unit': 'ratio'}]\n"
    )
    done = assay("check", "sdpa", "--probe", "half", "--plugins", tmp_path, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    "verb, head",
    [
        ("check", "STAGE = 'check'\n\n\ndef cases(generator):\n    return [generator.spec()]\n"),
        ("bench", "STAGE = 'bench'\n"),
    ],
)
@pytest.mark.sampled
def test_a_probe_that_raises_is_named_as_the_one_that_does(tmp_path, verb, head):
    """`raises ZeroDivisionError` stood under the implementation, which had done nothing wrong."""
    (tmp_path / "half.py").write_text(f"{head}\n\ndef measure(call, *_):\n    call()\n    1 / 0\n")
    flags = ["--plugins", tmp_path]
    flags += ["--set", "STAGES=bench", *SMALL] if verb == "bench" else []
    probes = "half" if verb == "check" else "half,accuracy"
    done = assay(verb, "sdpa", "--probe", probes, *flags, cwd=tmp_path)
    words = " ".join(done.stdout.split())
    assert done.returncode == 1 and "the probe itself raises ZeroDivisionError" in words


@pytest.mark.parametrize("verb", ["run", "plan"])
@pytest.mark.parametrize(
    ("cells", "words"),
    [
        ("1 / 0", "mine.py: cells() fails: ZeroDivisionError"),
        ("['a']", "cells() must return Cell objects"),
    ],
)
def test_a_stage_with_bad_cells_is_named(tmp_path, verb, cells, words):
    (tmp_path / "plugins" / "stages").mkdir(parents=True)
    (tmp_path / "plugins" / "stages" / "mine.py").write_text(
        f'"""Mine."""\n\n\ndef cells(study):\n    return {cells}\n\n\ndef run(cell):\n    yield\n'
    )
    done = assay("study", verb, "--plugins", "plugins", "--set", "STAGES=mine", cwd=tmp_path)
    assert done.returncode == 2 and words in done.stderr
    assert not (tmp_path / "results").exists()


def test_a_folder_called_like_a_file_is_no_plugin(tmp_path):
    (tmp_path / "mine" / "nested.py").mkdir(parents=True)
    done = assay("list", "--plugins", "mine", cwd=tmp_path)
    assert done.returncode == 0 and "nested" not in done.stdout
