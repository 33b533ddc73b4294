"""Figures measured again, and figures of others: confirmed, not confirmed, not comparable."""

import msgspec
import pytest

from assay.errors import BadInput
from assay.host import CHECKOUT
from assay.verify import claim, evidence
from tools import published, remeasured

replace = msgspec.structs.replace
RATIO = claim.load(CHECKOUT / "claims" / "append-speed.toml")
TIME = claim.load(CHECKOUT / "claims" / "import-time.toml")
FIGURES = {path.stem: published.load(path) for path in published.FOLDER.glob("*.toml")}
SHARE = FIGURES["kvsplice-cache-share"]


def records(metric, *, times=1.0, host=None):
    """The records of the spine, with one figure changed, and those of another machine."""
    for record in evidence.load("spine"):
        factor = times if record.metric == metric else 1.0
        samples = [sample * factor for sample in record.samples]
        value = None if record.value is None else record.value * factor
        yield replace(record, samples=samples, value=value, host=host or record.host)


@pytest.mark.parametrize(
    ("stated", "times", "host", "word"),
    [
        (RATIO, 1.0, None, "confirmed"),
        (RATIO, 1.0, "elsewhere", "confirmed"),
        (RATIO, 0.5, "elsewhere", "not confirmed"),
        (TIME, 1.0, None, "confirmed"),
        (TIME, 99.0, None, "not confirmed"),
        (TIME, 1.0, "elsewhere", "not comparable"),
    ],
)
def test_a_claim_is_held_against_what_was_measured_again(stated, times, host, word) -> None:
    again = list(records(stated.records.where["metric"], times=times, host=host))
    assert remeasured.judge(stated, again).word == word


def test_a_command_that_leaves_another_record_tests_nothing() -> None:
    judged = remeasured.judge(RATIO, [])
    assert judged.word == "not tested" and "selects 0 records" in judged.reason


def test_claims_that_can_be_measured_again_name_a_command_of_ours() -> None:
    repeatable = [c for p in (CHECKOUT / "claims").glob("*.toml") if (c := claim.load(p)).again]
    assert len(repeatable) >= 5
    assert {stated.again.split()[0] for stated in repeatable} <= {"study", "check", "bench"}


def test_published_figures_have_all_three_verdicts() -> None:
    words = {repeated.word for _, repeated in published.judge_all().values()}
    assert words == {"confirmed", "not confirmed", "not comparable"}


def test_a_published_figure_is_judged_by_its_tolerance_and_its_conditions() -> None:
    assert published.judge(SHARE).word == "not confirmed"
    assert published.judge(replace(SHARE, figure=0.0834)).word == "confirmed"
    elsewhere = replace(SHARE, conditions={"device": "NVIDIA H100"})
    assert published.judge(elsewhere).word == "not comparable"
    unknown = published.judge(replace(SHARE, conditions={"tokens": 9}))
    assert unknown.word == "not comparable" and "tokens not recorded" in unknown.reason


@pytest.mark.parametrize(
    "changes",
    [
        {"records": replace(SHARE.records, evidence="nowhere")},
        {"records": replace(SHARE.records, where={"metric": "none"})},
        {"against": None, "unit": "ms"},
    ],
    ids=["no evidence", "no record", "another unit"],
)
def test_a_published_figure_without_a_record_is_refused(changes) -> None:
    with pytest.raises(BadInput):
        published.judge(replace(SHARE, **changes))


def test_a_misspelt_file_is_refused_by_name(tmp_path) -> None:
    file = tmp_path / "typo.toml"
    file.write_text('says = "fast"\nfigures = 3\n')
    with pytest.raises(BadInput, match=r"typo.toml: not a published figure"):
        published.load(file)
