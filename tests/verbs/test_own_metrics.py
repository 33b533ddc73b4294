"""A probe of the user's own, as docs/plugins.md shows one: its metric in the report, at once."""

from command_line import SMALL, assay

OUTPUT_NORM = '''"""Norm of the output."""

STAGE = "bench"


def measure(call, workload, host):
    return [{"metric": "out_norm", "value": float(call().norm()), "unit": "nats"}]
'''
SEEN = '''"""A check of the user's own."""

STAGE = "check"
EVERY_WORKLOAD = True


def measure(call, workload, host):
    return [{"metric": "seen", "value": 2.0, "unit": "ratio", "status": "failed", "reason": "no"}]
'''


def test_a_probe_needs_nothing_but_its_name(tmp_path):
    """It was refused: no check of it on this workload; add accuracy to PROBES."""
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "output_norm.py").write_text(OUTPUT_NORM)
    flags = ["--plugins", folder, *SMALL, "--set", "STAGES=check,bench", "--dtype", "float32"]
    done = assay("bench", "eager", "--probe", "output_norm", *flags, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    (run,) = (tmp_path / "results" / "bench").iterdir()
    table = assay("report", run, "--table", "other_metrics", cwd=tmp_path).stdout
    assert "out_norm (nats)" in table and "| eager |" in table
    assert "Other metrics" in done.stdout and "no record of this metric" not in done.stdout
    assert "out_norm_bench" in (run / "report.html").read_text()


def test_a_check_of_the_users_own_satisfies_needs(tmp_path):
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "seen.py").write_text(SEEN)
    (folder / "output_norm.py").write_text(OUTPUT_NORM + '\n\nNEEDS = ("seen",)\n')
    flags = ["--plugins", folder, *SMALL, "--set", "STAGES=bench", "--dtype", "float32"]
    done = assay("bench", "eager", "--probe", "output_norm,seen", *flags, "--json", cwd=tmp_path)
    assert done.returncode == 1 and "not measured: its seen is failed: no" in done.stdout
    assert '"metric":"out_norm"' not in done.stdout
