"""Words on a claim: the same file, changed in one place at a time."""

from pathlib import Path

import msgspec
import pytest

from assay.verify import claim
from assay.verify.claim_verdict import judge

replace = msgspec.structs.replace
CLAIMS = Path(__file__).parents[2] / "claims"
LOSS = claim.load(CLAIMS / "h200-train-gpt2.toml")
KERNEL = claim.load(CLAIMS / "h200-decode-k16v8.toml")


def with_condition(stated, **changes):
    return replace(stated, holds=replace(stated.holds, **changes))


def test_a_claim_that_its_records_hold_up_is_supported():
    assert judge(LOSS).word == "supported"


def test_a_figure_beyond_its_bounds_is_refuted():
    verdict = judge(with_condition(LOSS, at_most=3.64))
    assert verdict.word == "refuted" and "wanted at least 3.629 and at most 3.64" in verdict.reason


def test_another_figure_than_the_record_is_unsupported():
    verdict = judge(with_condition(LOSS, shown="3.658"))
    assert verdict.word == "unsupported" and "3.658" in verdict.reason


@pytest.mark.parametrize("where", [{"metric": "no_such"}, {"metric": "final_val_loss"}])
def test_a_claim_without_its_one_record_is_unsupported(where):
    verdict = judge(replace(LOSS, records=replace(LOSS.records, where=where)))
    assert verdict.word == "unsupported" and "wanted exactly one" in verdict.reason


def test_evidence_that_is_not_here_is_not_tested():
    verdict = judge(replace(LOSS, records=replace(LOSS.records, evidence="elsewhere")))
    assert verdict.word == "not tested"


def test_a_claim_of_another_level_is_unsupported():
    assert judge(replace(LOSS, level="kernel")).word == "unsupported"
    assert judge(replace(LOSS, level="model")).word == "supported"


def test_a_claim_that_its_negative_control_fulfils_too_is_unsupported():
    assert LOSS.control and judge(LOSS).word == "supported"
    verdict = judge(with_condition(LOSS, at_most=3.71))
    assert verdict.word == "unsupported" and "negative control" in verdict.reason


def test_a_negative_control_that_is_not_there_is_unsupported():
    absent = replace(LOSS.control, where={"metric": "no_such"})
    assert judge(replace(LOSS, control=absent)).word == "unsupported"


def test_evidence_that_fails_a_check_supports_a_claim_partly():
    verdict = judge(claim.load(CLAIMS / "h200-cute-8192.toml"))
    assert verdict.word == "partly" and "commit: baseline-h200" in verdict.reason


def test_a_ratio_is_that_of_paired_rounds_with_its_interval():
    peer = replace(KERNEL.records, where={**KERNEL.records.where, "subject": "dense:sdpa_cudnn"})
    verdict = judge(with_condition(replace(KERNEL, against=peer), at_least=0.1, at_most=2.0))
    assert verdict.interval and verdict.interval[0] <= verdict.value <= verdict.interval[1]
    assert 0.7 < verdict.value < 0.8  # 1.3 times as fast


def test_sides_of_different_units_are_no_ratio():
    peer = replace(LOSS.records, where={"metric": "train_seconds", "cell": "GPT2/s0"})
    verdict = judge(replace(LOSS, against=peer))
    assert verdict.word == "unsupported" and "differ in metric, unit" in verdict.reason


@pytest.mark.parametrize(
    "says",
    ["It ends at 13.659 nats.", "It ends at 3.6591 nats.", "It ends low."],
)
def test_a_sentence_without_the_very_figure_is_unsupported(says):
    assert judge(replace(LOSS, says=says)).word == "unsupported"


def test_a_sentence_with_another_unit_is_unsupported():
    reworded = KERNEL.says.replace(f"{KERNEL.holds.shown} ms", f"{KERNEL.holds.shown} s")
    assert reworded != KERNEL.says
    verdict = judge(replace(KERNEL, says=reworded))
    assert verdict.word == "unsupported" and "its sentence says s, its record ms" in verdict.reason


def test_a_control_of_another_metric_is_unsupported():
    other = replace(LOSS.control, evidence="spine", where={"metric": "quickstart_s"})
    verdict = judge(replace(LOSS, control=other))
    assert verdict.word == "unsupported" and "negative control is quickstart_s" in verdict.reason


def test_a_ratio_of_two_machines_is_unsupported():
    sides = [
        claim.RecordSelection(
            evidence=evidence,
            where={"metric": "latency_ms", "subject": "sdpa", "cell": cell},
        )
        for evidence, cell in (
            ("quickstart-cpu", "latency/b1_h8_kv2_q512_k512_d64_causal_float32"),
            ("readme-bench", "b1_h8_kv2_q512_k512_d64_causal_float32"),
        )
    ]
    ratio = replace(LOSS, records=sides[0], against=sides[1], control=None)
    verdict = judge(ratio)
    assert verdict.word == "unsupported" and "machine" in verdict.reason, verdict


def test_nested_toml_is_refused_in_words(tmp_path):
    file = tmp_path / "deep.toml"
    file.write_text("a = " + "[" * 5000 + "]" * 5000)
    with pytest.raises(Exception, match="not a claim"):
        claim.load(file)
