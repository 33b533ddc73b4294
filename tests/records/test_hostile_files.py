"""Files that nobody's program wrote are refused with a message, never with a traceback."""

import os
import signal
import subprocess
import sys

import msgspec
import pytest
from captured_calls import add, inputs
from made_records import batch, record, run_folder, written
from new_process import environment

from assay import cli, plugins
from assay.attention import thresholds
from assay.captures import exchange, manifest
from assay.captures.store import Store
from assay.errors import BadInput
from assay.laws import thresholds_file
from assay.records import log, run
from assay.records.durable import is_locked, only_process, waiting_for_others
from assay.records.schema import LARGEST, WorkloadIdentity
from assay.reports.contents import read_contents
from assay.reports.numerals import number
from assay.reports.row_files import read_rows
from assay.studies import kconfig, session, study
from assay.verify.publish.manifest import read_manifest

DEPTH = 100_000
DEEP = b'{"schema": 1, "more": ' + b"[" * DEPTH + b"]" * DEPTH + b"}"


def test_a_deep_line_of_a_log_is_named(tmp_path):
    path = written(tmp_path / "metrics.jsonl", batch("cell", 2))
    lines = path.read_bytes().splitlines(keepends=True)
    deep = lines[0].replace(b'"value"', b'"data":' + DEEP + b',"value"')
    path.write_bytes(deep + lines[1])
    with pytest.raises(BadInput, match=r"metrics.jsonl:1: not a record"):
        log.read(path)


@pytest.mark.parametrize(
    "read",
    [
        lambda file: thresholds_file.read(file),
        lambda file: thresholds._load(file),
        lambda file: manifest.read(file),
        lambda file: read_rows(file),
        lambda file: run._decode(file, run.Run),
    ],
)
def test_a_deep_file_of_json_is_refused(tmp_path, read):
    file = tmp_path / "file.json"
    file.write_bytes(DEEP + b"\n")
    with pytest.raises(BadInput, match=r"file.json"):
        read(file)


def test_a_deep_manifest_of_a_bundle_cannot_be_read(tmp_path):
    (tmp_path / "manifest.json").write_bytes(DEEP.replace(b"1", b"2", 1))
    with pytest.raises(msgspec.DecodeError, match="nested too deeply"):
        read_manifest(tmp_path)


def test_a_deep_note_of_an_exported_call_is_refused(tmp_path, monkeypatch):
    store = Store.create(tmp_path / "store")
    add(store, inputs())
    monkeypatch.setattr(msgspec.json, "encode", lambda note: DEEP)
    (file,) = exchange.export(store, store.manifest().records, tmp_path / "out")
    monkeypatch.undo()
    with pytest.raises(BadInput, match="does not say which call"):
        exchange.read_exported(file)


@pytest.mark.parametrize(
    "text",
    ["NAMES = " + "(" * 10_000, "NAMES = " + "-" * 100_000 + "1", "NAMES = '\0'"],
)
def test_a_plugin_nested_without_end_cannot_be_read(tmp_path, text):
    file = tmp_path / "mine.py"
    file.write_text(f"{text}\n")
    with pytest.raises(BadInput, match=r"mine.py cannot be read as Python"):
        plugins.check(plugins.find("sequence", str(file)))


@pytest.mark.parametrize("value", [2 * LARGEST, -2 * LARGEST, 1e308])
def test_numbers_whose_squares_overflow_are_no_records(value):
    with pytest.raises(ValueError, match="not finite, or beyond"):
        record(value=value)
    with pytest.raises(ValueError, match="not finite, or beyond"):
        record(samples=[1.0, value])


@pytest.mark.parametrize(
    ("symbol", "text"),
    [("SEED", '"x"'), ("SEED", "x"), ("STUDY", '"a\0b"'), ("CAPTURE", "2"), ("RESULTS", "results")],
)
def test_settings_of_a_run_are_such_as_a_config_has(tmp_path, symbol, text):
    folder = run_folder(tmp_path, bench=[batch("cell", 1)])
    known = kconfig.load(None).config
    changed = msgspec.structs.replace(run.open_run(folder.path)[1], config=known | {symbol: text})
    with pytest.raises(BadInput, match=rf"{symbol}=.* wanted a .* restore the file"):
        session.study_of(changed)


@pytest.mark.parametrize("devices", [7, None, [7], {"kind": "cuda"}])
def test_a_host_whose_devices_are_none_is_refused(tmp_path, devices):
    folder = run_folder(tmp_path)
    content = msgspec.json.decode(folder.run_file.read_bytes())
    content["sessions"][0]["host"]["devices"] = devices
    folder.run_file.write_bytes(msgspec.json.encode(content))
    with pytest.raises(BadInput, match="the devices of a host are"):
        run.open_run(folder.path)


def test_a_run_that_was_never_started_has_no_last_start(tmp_path):
    folder = run_folder(tmp_path)
    content = msgspec.json.decode(folder.run_file.read_bytes())
    folder.run_file.write_bytes(msgspec.json.encode(content | {"sessions": []}))
    with pytest.raises(BadInput, match=r"run\.json"):
        run.last_session(folder)


def test_a_run_of_no_device_is_refused():
    config = kconfig.load(None).config | {"DEVICE_AUTO": "n"}
    with pytest.raises(BadInput, match="names 0 devices"):
        study.build(config)


def test_a_lock_that_is_a_link_is_not_followed(tmp_path):
    (tmp_path / "other").write_text("theirs")
    lock = tmp_path / "lock"
    lock.symlink_to(tmp_path / "other")
    for hold in (lambda: only_process(lock), lambda: waiting_for_others(lock, 1)):
        with pytest.raises(BadInput, match="symbolic link, which is not followed"), hold():
            pass
    with pytest.raises(BadInput, match="a symbolic link; remove it"):
        is_locked(lock)
    assert (tmp_path / "other").read_text() == "theirs"


def test_a_torn_file_that_is_a_link_is_not_followed(tmp_path):
    path = written(tmp_path / "metrics.jsonl", batch("cell", 2))
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"torn')
    (tmp_path / "other").write_text("theirs")
    (tmp_path / "metrics.jsonl.torn").symlink_to(tmp_path / "other")
    with pytest.raises(BadInput, match="symbolic link, which is not followed"):
        log.Log(path)
    assert (tmp_path / "other").read_text() == "theirs"
    assert path.read_bytes() == whole + b'{"torn', "what is torn was lost"


def test_an_argument_with_a_nul_is_refused(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["assay", "report", "results\0"])
    handler = signal.getsignal(signal.SIGTERM)
    try:
        with pytest.raises(SystemExit) as ended:
            cli.main()
    finally:
        signal.signal(signal.SIGTERM, handler)
    assert ended.value.code == 2
    assert "holds a NUL character" in capsys.readouterr().err


def assay(*arguments: bytes) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "assay", *arguments]
    return subprocess.run(
        command, env=environment(), capture_output=True, text=True, timeout=120, check=False
    )


def test_a_folder_whose_name_is_not_utf8_is_read_and_not_written_to(tmp_path):
    results = os.fsencode(tmp_path) + b"/results\xff"
    folder = run_folder(tmp_path / "plain", bench=[batch("cell", 2)])
    os.renames(folder.path.parent.parent, results)
    path = os.path.join(results, *map(os.fsencode, folder.path.parts[-2:]))
    shown = assay(b"report", path)
    assert shown.returncode == 0 and r"results\udcff" in shown.stdout
    for verb in ([b"query", b"SELECT 1"], [b"bench", b"eager", b"--set", b"STAGES=host"]):
        refused = assay(*verb, b"--out", results)
        assert refused.returncode == 2 and "is not UTF-8" in refused.stderr


@pytest.mark.parametrize(
    "change",
    [
        *({"key_length": size} for size in (0, -1, 2.0, True, "8", [], 10**9)),
        *({"causal": value} for value in (0, [], "full")),
        *({"dtype": value} for value in (None, 16, [])),
    ],
)
def test_a_workload_of_impossible_sizes_is_no_record(change):
    spec = {"batch": 1, "key_length": 8, "causal": True, "dtype": "float32"}
    WorkloadIdentity(name="sound", spec=spec, content=None)
    with pytest.raises(ValueError, match=f"'changed' has {next(iter(change))} = "):
        WorkloadIdentity(name="changed", spec=spec | change, content=None)


def test_a_record_of_another_stage_is_refused(tmp_path):
    folder = run_folder(tmp_path, bench=[batch("a", 2), batch("b", 1, stage="check")])
    with pytest.raises(BadInput, match=r"metrics.jsonl:3: a record of stage 'check' in the log of"):
        run.load_records(tmp_path)
    (stage,) = read_contents(folder).stages
    assert stage.status == "unreadable" and ":3: a record of stage 'check'" in stage.problems[0]


def test_a_quotient_beyond_all_numbers_is_shown_as_such():
    assert number(LARGEST / 5e-324) == "inf"
    assert number(-LARGEST) == "-1.00e150"
