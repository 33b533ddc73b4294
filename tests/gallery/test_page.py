"""The tables of the page on public implementations are those that the evidence gives."""

import tomllib
from importlib import util

from assay.host import CHECKOUT
from assay.records.schema import SCHEMA, Record

GALLERY = CHECKOUT / "gallery"


def page():
    spec = util.spec_from_file_location("gallery_page", GALLERY / "page.py")
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def record(subject, metric, status, **rest):
    stamp = {"schema": SCHEMA, "run": "r", "session": 1, "stage": "suite", "cell": subject}
    stamp |= {"fingerprint": "f", "host": "h", "time": "2026-11-16T00:00:00.000Z"}
    return Record(
        subject=subject, metric=metric, value=None, unit="ratio", status=status, **stamp, **rest
    )


def test_the_page_says_what_the_records_say():
    module = page()
    text = module.PAGE.read_text()
    assert module.written(text, module.kept()) == text


def test_a_sound_one_that_is_flagged_is_a_false_alarm_and_a_vague_cause_a_miss():
    records = [
        record("nanogpt", "accuracy", "failed", reason="out is off by 1"),
        record("mingpt", "accuracy", "ok", reason="-"),
        record(
            "dao_triton", "accuracy", "failed", reason="out is off", cause="wrong only in row 1"
        ),
        record(
            "labml_flash", "shapes", "failed", reason="out is off", cause="it is aligned top-left"
        ),
    ]
    lines = page().score(records).splitlines()
    assert lines[2:] == [
        "| verdict right | 3 of 4 | nanogpt |",
        "| cause right, of those that are wrong | 1 of 2 | dao_triton |",
        "| sound ones flagged | 1 of 2 | nanogpt |",
    ]


def test_what_is_wrong_has_words_for_its_cause():
    truth = tomllib.loads((GALLERY / "truth.toml").read_text())
    assert all(entry["sound"] or entry["cause"] for entry in truth.values())
