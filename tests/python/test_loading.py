"""Records as a program and a notebook get them: a list, frames, an answer, a picture."""

import subprocess
import sys
from pathlib import Path

import pytest
from reports.build_run import append, begin, checked, latency

import assay
from assay.errors import BadInput, CannotRunHere
from assay.records.schema import Measurement

EVIDENCE = Path(__file__).parents[2] / "evidence" / "readme-bench"
HOSTILE = "<img src=x onerror=alert(1)>"


def timed(subject: str, **changes) -> list[Measurement]:
    return [checked(subject), latency(subject, [1.5, 2.0, 3.0], **changes)]


@pytest.fixture
def results(tmp_path) -> Path:
    """Two runs of a study."""
    for name in ("one", "two"):
        run = begin(tmp_path / "results" / "quickstart" / name, run=name)
        append(run, "bench", "cell", *timed("sdpa"))
    return tmp_path / "results"


def test_a_run_a_study_several_and_a_pattern_are_read(results):
    study = results / "quickstart"
    whole = assay.load_records(results)
    assert len(whole) == 6 and len(whole.folders) == 2
    assert assay.load_records(study) == whole == assay.load_records(f"{study}/*")
    assert assay.load_records(study / "two", study / "one", study / "one") == whole[3:] + whole[:3]
    assert len(assay.load_records(str(study / "one"))) == 3


def test_where_nothing_matches_it_says_so(results):
    (results / "none").mkdir()
    for folder in (results / "none", results / "quickstart" / "one" / "stages"):
        with pytest.raises(BadInput, match=f"there is no run in {folder}"):
            assay.load_records(results, folder)
    with pytest.raises(BadInput, match=r"no folder matches .*20[*]"):
        assay.load_records(results / "20*")
    with pytest.raises(BadInput, match="needs a path"):
        assay.load_records()


def test_records_are_long_tables(results):
    records = assay.load_records(results / "quickstart" / "one")
    (time,) = records.where(metric="latency_ms", key_length=128)
    for made in (
        pytest.importorskip("pandas") and records.to_pandas().to_dict("list"),
        pytest.importorskip("polars") and records.to_polars().to_dict(as_series=False),
        pytest.importorskip("pyarrow") and records.to_arrow().to_pydict(),
    ):
        place = list(made["metric"]).index("latency_ms")
        assert made["value"][place] == time.value and made["subject"][place] == "sdpa"
        assert list(made["samples"][place]) == time.samples
        assert made["workload"][place] == time.workload.name and made["key_length"][place] == 128
    assert len(records.to_csv().splitlines()) == 4
    with pytest.raises(BadInput, match="no field 'speed'"):
        records.where(speed=1)


def test_a_package_that_is_absent_is_named(results, monkeypatch):
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(CannotRunHere, match=r"pip install polars.*assay\[data\]"):
        assay.load_records(results).to_polars()


def test_a_part_of_a_run_has_no_answer_of_its_own(results):
    records = assay.load_records(results / "quickstart" / "one")
    part = records[1:]
    assert repr(part).startswith("2 records of 1 run: 2 ok")
    assert "latency_ms" in repr(part) and records[0] in records
    with pytest.raises(BadInput, match="one run has a report"):
        assert part.tables


def test_a_real_run_answers_before_its_table():
    records = assay.load_records(EVIDENCE)
    assert repr(records).splitlines()[0] == records.answer.lines[0]
    assert records.answer.word == "FAIL" and not records.passed
    frame = records.tables["speed"].to_pandas()
    with pytest.raises(BadInput, match="no table 'sped'; did you mean speed"):
        records.tables["sped"]
    assert list(frame["subject"]) == ["sdpa", "eager", "top_left"]
    assert frame["forward (ms)"][2] != frame["forward (ms)"][2]  # refused: not a number
    assert "refused" in frame["forward (ms): text"][2]
    assert "not timed: it fails" in records.tables["speed"].to_csv()
    page = records._repr_html_()
    assert page.count("<table") == page.count("data:image/png;base64,") == 1


def test_a_speed_without_a_passed_check_is_in_no_table(tmp_path):
    run = begin(tmp_path / "run")
    append(run, "bench", "cell", *timed("fast")[1:])
    page = assay.load_records(tmp_path / "run")._repr_html_()
    assert "it has passed no check" in page and "2.000" not in page


def test_names_of_others_add_no_markup(tmp_path):
    run = begin(tmp_path / "run")
    bad = {"status": "failed", "value": None, "reason": HOSTILE + '" x="'}
    append(run, "bench", HOSTILE, *timed(HOSTILE), latency(HOSTILE + "2", [], **bad))
    records = assay.load_records(tmp_path / "run")
    for page in (records._repr_html_(), records[:2]._repr_html_()):
        assert "onerror" in page and "<img src=x" not in page and '" x="' not in page
    assert "<img" not in records.to_markdown()


def test_queries_give_rows_and_frames(results):
    rows = assay.query("SELECT metric, value AS v, unit AS v FROM records ORDER BY ALL", results)
    assert rows[0] == ("cell_seconds", 1.25, "s") and len(rows) == 6
    assert rows.columns == ["metric", "v", "v_2"]
    assert list(rows.to_pandas().columns) == rows.to_arrow().column_names == rows.columns
    assert repr(rows).startswith("6 rows") and "latency_ms" in rows.to_markdown()
    with pytest.raises(BadInput, match="cannot be answered"):
        assay.query("SELECT nothing FROM records", results)


def test_a_query_does_not_pass_over_an_archived_run():
    with pytest.raises(BadInput, match=r"readme-bench is archived.*assay.load_records"):
        assay.query("SELECT count(*) FROM records", EVIDENCE)


def test_completion_knows_every_name():
    assert set(assay.__all__) <= set(dir(assay)) and "Any" not in dir(assay)
    assert all(getattr(assay, name).__doc__ for name in assay.__all__)
    text = Path(assay.__file__).read_text().partition("if TYPE_CHECKING")[2].partition("__ver")[0]
    assert all(name in text for name in assay.__all__), "editors complete what is imported there"


def test_asking_for_names_imports_nothing_heavy():
    code = "import assay, sys; dir(assay); assay.__all__; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout
    assert "assay" in loaded and not {"numpy", "msgspec", "torch"} & set(loaded.split())
