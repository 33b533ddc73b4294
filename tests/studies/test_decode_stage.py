"""The stages of decode kernels: rows for all of them, and wrong ones that get no speed."""

from pathlib import Path

import pytest
from study_process import StudyProcess

pytest.importorskip("torch")

from assay.errors import BadInput
from assay.studies import kconfig, one_step
from assay.studies.cell import fingerprint
from assay.studies.stages import decode, decode_suite

EXAMPLE = Path(__file__).parent.parent.parent / "docs" / "examples" / "my_decode.py"
STEP = "b2_h4_kv2_q1_k70_d32_causal_float32"
MORE = "b2_h4_kv2_q3_k70_d32_causal_float16"
FAULTS = {
    "unscaled": (' * streams["v_scale"].float()', ""),
    # Right as long as values are those that it saw first.
    "stale": (
        "    k, v = (x.repeat",
        "    k, v = KEPT.setdefault(k.shape, (k, v))\n    k, v = (x.repeat",
    ),
}
ROUNDS = 6
CHOSEN = "latency,work"
GOOD = ("dense:sdpa", "int4:dequantised", "k16v8:my_decode")


@pytest.fixture(scope="module")
def ran(tmp_path_factory) -> StudyProcess:
    folder = tmp_path_factory.mktemp("decode")
    mine = folder / "mine"
    mine.mkdir()
    text = EXAMPLE.read_text().replace('ACCEPTS = ("', 'KEPT = {}\nACCEPTS = ("')
    (mine / "my_decode.py").write_text(text)
    for name, change in FAULTS.items():
        (mine / f"{name}.py").write_text(text.replace(*change))
    study = StudyProcess(folder=folder, plugins=mine)
    code = study.run(
        "decode",
        DECODERS="sdpa,int4:dequantised,my_decode,unscaled,stale,sdpa_cudnn",
        WORKLOADS=f"{STEP},{MORE},b1_h4_s64_d32",
        PROBES=CHOSEN,
        DEVICE_CPU="y",
        ROUNDS=ROUNDS,
        WARMUP=1,
    )
    assert code == 1, study.stderr
    return study


def of(ran, subject, cell=STEP):
    return {r.metric: r for r in ran.records("decode") if (r.subject, r.cell) == (subject, cell)}


def test_only_workloads_of_few_new_tokens_have_a_cell(ran):
    assert list(ran.ends("decode")) == [STEP, MORE]


@pytest.mark.parametrize("subject", GOOD)
def test_a_kernel_is_checked_and_timed_beside_the_others(ran, subject):
    for cell in (STEP, MORE):
        records = of(ran, subject, cell)
        assert {r.status for r in records.values()} == {"ok"}, records
        assert len(records["latency_ms"].samples) == ROUNDS and not records["latency_ms"].alone
        assert 0 < records["error_over_budget_out"].value <= 1
        assert records["forward_bytes"].value > records["kv_cache_bytes"].value > 0
        assert records["latency_ms"].workload.content and records["latency_ms"].level == "kernel"


def test_bytes_are_those_of_the_layout(ran):
    held = {subject: of(ran, subject)["kv_cache_bytes"].value for subject in GOOD}
    tokens = 2 * 70 * 2  # batch, keys and kv heads
    assert held["dense:sdpa"] == tokens * 2 * 32 * 4
    assert held["k16v8:my_decode"] == tokens * (32 * 4 + 32 + 2)
    assert held["int4:dequantised"] == tokens * 2 * (16 + 2)


def test_a_wrong_kernel_is_not_timed(ran):
    records = of(ran, "k16v8:unscaled")
    assert records["error_over_budget_out"].status == "failed"
    assert records["latency"].status == "refused" and "latency_ms" not in records


def test_an_answer_made_beforehand_is_no_speed(ran):
    """It passes the check, because only a timed call has other values than it saw before."""
    records = of(ran, "k16v8:stale")
    assert records["error_over_budget_out"].status == "ok" and "latency_ms" not in records
    assert "its answer was made beforehand" in records["latency"].reason


def test_what_cannot_run_here_is_a_row(ran):
    (record,) = of(ran, "dense:sdpa_cudnn").values()
    assert record.status == "unsupported" and "NVIDIA GPU only" in record.reason


def test_no_decoders_are_no_cells_and_no_step_is_refused():
    assert decode.cells(kconfig.load(None)) == decode_suite.cells(kconfig.load(None)) == []
    study = kconfig.load(None, ["DECODERS=sdpa", "LENGTHS=128,32/16"])
    with pytest.raises(BadInput, match="no workload of this study is a step of decoding"):
        decode.cells(study)


def test_all_is_every_file_with_its_layout():
    study = kconfig.load(None, ["DECODERS=all"])
    assert {"dense:dense", "int4:int4", "int4:dequantised"} <= set(study.decoders)
    cells = decode_suite.cells(study)
    assert [cell.subjects for cell in cells] == [(name,) for name in study.decoders]
    assert {"tails", "ragged", "paged", "neighbours", "determinism"} <= set(cells[0].probes)


def test_a_file_is_named_by_its_path_with_its_layout_or_without():
    for entry in (str(EXAMPLE), f"k16v8:{EXAMPLE}"):
        study = kconfig.load(None, [f"DECODERS={entry}", f"WORKLOADS={STEP}"])
        assert study.decoders == ("k16v8:my_decode",) and study.plugin_folders == (EXAMPLE,)
    study = kconfig.load(None, [f"DECODERS={EXAMPLE}", f"WORKLOADS={STEP}", "STAGES=decode"])
    (step,) = one_step.steps(study, Path("scratch"))
    assert step.settings["k16v8:my_decode"]["DECODERS"] == f"k16v8:{EXAMPLE}"
    study = kconfig.load(None, ["DECODERS=sdpa,splice", "STAGES=decode_suite"])
    steps = one_step.steps(study, Path("scratch"))
    assert [cell.workload.kv_heads for cell in steps[0].cells] == [2, 1]


@pytest.mark.parametrize("entry", ["sdpa,dense:sdpa", "all,sdpa", "dequantised", "nothing"])
def test_lists_that_cannot_be_read_are_refused(entry):
    with pytest.raises(BadInput, match="DECODERS"):
        kconfig.load(None, [f"DECODERS={entry}"])


def test_a_cell_changes_with_the_kernel_and_the_layout(monkeypatch):
    from assay import code_digests, host

    study = kconfig.load(None, ["DECODERS=int4:dequantised", f"WORKLOADS={STEP}"])
    (cell,) = decode.cells(study)
    (of_suite,) = decode_suite.cells(study)
    here = host.inspect()
    before = fingerprint("decode", cell, here), fingerprint("decode_suite", of_suite, here)
    digest = code_digests._digest
    for file in ("decode/dequantised.py", "layouts/int4.py", "kv/formats.py", "decode/cache.py"):

        def changed(path: Path, file: str = file) -> str:
            return "changed" if str(path).endswith(file) else digest(path)

        monkeypatch.setattr(code_digests, "_digest", changed)
        assert fingerprint("decode", cell, here) != before[0], file
        assert fingerprint("decode_suite", of_suite, here) != before[1], file


def test_the_suite_examines_the_dtypes_that_are_timed():
    named = ["DECODERS=sdpa", f"WORKLOADS={MORE}", "STAGES=decode_suite,decode"]
    (cell,) = decode_suite.cells(kconfig.load(None, named))
    assert (cell.options["dtypes"], cell.options["workloads"]) == (("float16",), ())
    (cell,) = decode_suite.cells(kconfig.load(None, named[:1]))
    assert cell.options["dtypes"] == ("float32",)
