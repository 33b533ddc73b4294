"""Texts of others as records keep and pages show them."""

import io
import re

import msgspec
import pytest

from assay.records import foreign_text
from assay.records.foreign_text import GuardedStream, first_line, message, visible, without_secrets
from assay.records.schema import Measurement, WorkloadIdentity
from assay.reports.markdown import table_lines
from assay.reports.table import Entry, Table
from assay.reports.terminal import show
from assay.verify.finding import fails

HEX = "0123456789abcdef" * 2 + "01234567"
CLIPBOARD = "\x1b]52;c;cm0gLXJmIC8=\x07"
KEY = "hf_" + "aB3" * 11


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (
            "plain, ünïcode 注意 and\ttabs\nof two lines",
            "plain, ünïcode 注意 and\ttabs\nof two lines",
        ),
        (f"a{CLIPBOARD}b", "ab"),
        ("a\x1b]0;title\x1b\\b\x9d2;other\x9cc", "abc"),
        ("a\x1bPq#0;2\x1b\\b\x1b^p\x07c", "abc"),
        ("\x1b[31mred\x1b[0m \x9b2Jgone \x1b[?1049h", "red gone "),
        ("\x1bcreset\x1b(0lines", "resetlines"),
        ("a\x1b]52;never ended\nthe next line", "a\nthe next line"),
        ("25 %\r100 %\r\nend\x85more\u2028yet", "25 %\n100 %\nend\nmore\nyet"),
        ("access\u202egnp.exe", "access\ufffdgnp.exe"),
        ("zero\u200bwidth\x00\x08 \udc80", "zero\ufffdwidth\ufffd\ufffd \ufffd"),
    ],
)
def test_nothing_is_left_that_a_terminal_obeys(text, wanted):
    assert visible(text) == wanted
    assert visible(wanted) == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("xox" + "b-123456-abcdef", "<secret>"),
        *(
            (f"a {start + 'A1b2C3d4' * 4}", "a <secret>")
            for start in ("sk-", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "wandb_v1_")
        ),
        *((f"id {start}{'A1B2' * 4}", "id <secret>") for start in ("AKIA", "ASIA")),
        ("BeArEr abcdefgh.ij", "BeArEr <secret>"),
        ("https://me:word@host/x", "https://<secret>@host/x"),
        (f"api-Key: {HEX}", "api-Key: <secret>"),
        ("A_TOKEN=abcdefgh", "A_TOKEN=<secret>"),
        ("cookie eyJhbGciOiJI.eyJzdWIiOiIx.c2lnbmF0dXJl;", "cookie <secret>;"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIE\nx\n-----END RSA PRIVATE KEY-----!", "<secret>!"),
        ("-----BEGIN PRIVATE KEY-----\nMIIE cut off", "<secret>"),
        ("{'MY_SECRET': 'abcdefgh12', 'A': 1}", "{'MY_SECRET': '<secret>', 'A': 1}"),
        ("DB_PASSWORD=hunter2hunter2 ok", "DB_PASSWORD=<secret> ok"),
        ("KEY: [2, 4, 512, 64], TOKEN = 7", "KEY: [2, 4, 512, 64], TOKEN = 7"),
        (f"commit {HEX}", f"commit {HEX}"),
    ],
)
def test_keys_are_masked(text, wanted):
    assert without_secrets(text) == wanted


def test_values_of_variables_that_are_named_as_keys_are_masked(monkeypatch):
    monkeypatch.setenv("SERVICE_token", "correct horse")
    monkeypatch.setenv("SHORT_KEY", "abc")
    foreign_text._secret_values.cache_clear()
    try:
        assert without_secrets("login: correct horse, abc") == "login: <secret>, abc"
    finally:
        monkeypatch.undo()
        foreign_text._secret_values.cache_clear()


def test_a_long_message_says_how_much_is_left_out_and_is_cut_once():
    text = message("a" * 1494 + f" {KEY} " + "b" * 5_000_000)
    assert text.startswith("a" * 1494 + " <secr …") and len(text) < 1_700
    assert re.search(r"\(5,000,\d{3} more characters; .* stderr.log", text)
    again = Measurement(metric="m", value=None, unit="", reason=f"eager: {text}")
    assert again.reason == f"eager: {text}"


def test_the_first_line_of_an_error_is_masked_before_it_is_cut():
    """Cut first, 14 letters of a key were left, which no pattern knew."""
    error = ValueError(f"\n{'x' * 285} {KEY}\rmore")
    assert first_line(error, 300) == f"{'x' * 285} <secret>"


def test_a_record_is_clean_when_it_is_made_and_when_an_old_one_is_read():
    dirty = {
        "metric": "m\r", "value": None, "unit": "", "subject": f"mine{CLIPBOARD}",
        "reason": f"no {KEY}", "cause": "\x1b[8mhidden", "source": "s\u202e",
        "data": {"k\x1b[0m": [CLIPBOARD, {"n": KEY}, 3.5]},
        "workload": {"name": f"w{CLIPBOARD}", "spec": {}, "content": None},
    }  # fmt: skip
    old = msgspec.json.decode(msgspec.json.encode(dirty), type=Measurement)
    workload = WorkloadIdentity(**dirty["workload"])
    for record in (old, Measurement(**{**dirty, "workload": workload})):
        assert (record.metric, record.subject) == ("m\n", "mine")
        assert (record.reason, record.cause, record.source) == ("no <secret>", "hidden", "s\ufffd")
        assert record.data == {"k": ["", {"n": "<secret>"}, 3.5]}
        assert record.workload.name == "w"


def test_tables_on_a_terminal_and_in_markdown_are_clean():
    from rich.console import Console

    entry = Entry(text=f"a{CLIPBOARD}\rb", detail="\x1b[2J", hint="why\x1b]0;x\x07", tone="failed")
    table = Table(title="t\x1b[5m", columns=(f"c{CLIPBOARD}",), rows=((entry,), ("\x9b1mz",)))
    screen = Console(file=io.StringIO(), width=80, force_terminal=False)
    show(table, screen)
    for text in (screen.file.getvalue(), "\n".join(table_lines(table))):
        assert "why" in text and "z" in text
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]|52;c|0;x", text), text


def test_a_finding_is_clean():
    assert fails(f"run{CLIPBOARD} differs").reason == "run differs"


def test_a_guarded_stream_lets_through_what_our_own_tables_need():
    stream = GuardedStream(io.StringIO())
    stream.write(f"\x1b[1mbold\x1b[0m {CLIPBOARD}\x1bcend\n")
    assert stream.getvalue() == "\x1b[1mbold\x1b[0m end\n"
