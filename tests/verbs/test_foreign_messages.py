"""Verbs on a kernel whose messages hold orders for a terminal, keys and megabytes."""

from command_line import SMALL, assay

TEXT = (
    r"\x1b]52;c;cm0gLXJmIC8=\x07\x1b]0;owned\x07\x1b[2Jno\rluck \u202eback \x9b31m "
    + "hf_" + "aB3" * 11 + " correct-horse "
)  # fmt: skip
RAISE = f'raise RuntimeError("{TEXT}" + "x" * 5_000_000)'
HEAD = "def attention(q, k, v, *, causal, scale):"
RAISES = f'"""Raises."""\n\n\n{HEAD}\n    {RAISE}\n'
FAILS = f'"""Fails on import."""\n\n\n{HEAD}\n    return q\n\n\n{RAISE}\n'
FORBIDDEN = ["\x1b", "\x9b", "\r", "\u202e", "owned", "52;c", "hf_aB3", "correct-horse", "x" * 5000]
FEW = ["--probe", "accuracy", "--set", "STAGES=check", *SMALL, "--device", "cpu"]


def test_no_message_of_a_kernel_reaches_a_page_as_it_is(tmp_path, monkeypatch):
    """OSC 52 of an exception wrote to the clipboard of whoever ran the check; a message of 5 MB
    became 35 MB of terminal."""
    monkeypatch.setenv("MY_SECRET", "correct-horse")
    (tmp_path / "raises.py").write_text(RAISES)
    (tmp_path / "fails.py").write_text(FAILS)
    done = assay("check", "raises.py", "fails.py", *FEW, cwd=tmp_path)
    assert "luck" in done.stdout and "<secret>" in done.stdout, done.stderr
    (folder,) = (tmp_path / "results/check").glob("*/")
    texts = {"stdout": done.stdout, "stderr": done.stderr}
    for name in ("report.md", "report.html", "summary_report.txt", "stages/check/metrics.jsonl"):
        texts[name] = (folder / name).read_bytes().decode()
    scripts = (folder / "report.html").stat().st_size if "plotly" in texts["report.html"] else 0
    assert sum(map(len, texts.values())) < 200_000 + scripts
    for name, text in texts.items():
        assert not [bad for bad in FORBIDDEN if bad in text], name
        assert name == "stderr" or "raises" in text


def test_a_refusal_is_clean(tmp_path):
    done = assay("report", "no\x1b]52;c;eA==\x07such", cwd=tmp_path)
    assert done.returncode == 2 and "nosuch" in done.stderr and "\x1b" not in done.stderr
