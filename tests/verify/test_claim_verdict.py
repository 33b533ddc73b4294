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
    found = judge(with_condition(LOSS, at_most=3.64))
    assert found.word == "refuted" and "wanted at least 3.629 and at most 3.64" in found.reason


def test_another_figure_than_the_record_is_unsupported():
    found = judge(with_condition(LOSS, shown="3.658"))
    assert found.word == "unsupported" and "3.658" in found.reason


@pytest.mark.parametrize("where", [{"metric": "no_such"}, {"metric": "final_val_loss"}])
def test_a_claim_without_its_one_record_is_unsupported(where):
    found = judge(replace(LOSS, records=replace(LOSS.records, where=where)))
    assert found.word == "unsupported" and "wanted exactly one" in found.reason


def test_evidence_that_is_not_here_is_not_tested():
    found = judge(replace(LOSS, records=replace(LOSS.records, evidence="elsewhere")))
    assert found.word == "not tested"


def test_a_claim_of_another_level_is_unsupported():
    assert judge(replace(LOSS, level="kernel")).word == "unsupported"
    assert judge(replace(LOSS, level="model")).word == "supported"


def test_a_claim_that_its_negative_control_fulfils_too_is_unsupported():
    assert LOSS.control and judge(LOSS).word == "supported"
    found = judge(with_condition(LOSS, at_most=3.71))
    assert found.word == "unsupported" and "negative control" in found.reason


def test_a_negative_control_that_is_not_there_is_unsupported():
    absent = replace(LOSS.control, where={"metric": "no_such"})
    assert judge(replace(LOSS, control=absent)).word == "unsupported"


def test_evidence_that_fails_a_check_supports_a_claim_partly():
    found = judge(claim.load(CLAIMS / "h200-cute-8192.toml"))
    assert found.word == "partly" and "commit: baseline-h200" in found.reason


def test_a_ratio_is_that_of_paired_rounds_with_its_interval():
    peer = replace(KERNEL.records, where={**KERNEL.records.where, "subject": "dense:sdpa_cudnn"})
    found = judge(with_condition(replace(KERNEL, against=peer), at_least=0.1, at_most=2.0))
    assert found.interval and found.interval[0] <= found.value <= found.interval[1]
    assert 0.7 < found.value < 0.8  # 1.3 times as fast


def test_sides_of_different_units_are_no_ratio():
    peer = replace(LOSS.records, where={"metric": "train_seconds", "cell": "GPT2/s0"})
    found = judge(replace(LOSS, against=peer))
    assert found.word == "unsupported" and "differ in metric, unit" in found.reason


@pytest.mark.parametrize(
    "says",
    ["It ends at 13.659 nats.", "It ends at 3.6591 nats.", "It ends low."],
)
def test_a_sentence_without_the_very_figure_is_unsupported(says):
    assert judge(replace(LOSS, says=says)).word == "unsupported"


def test_a_sentence_with_another_unit_is_unsupported():
    said = KERNEL.says.replace(f"{KERNEL.holds.shown} ms", f"{KERNEL.holds.shown} s")
    assert said != KERNEL.says
    found = judge(replace(KERNEL, says=said))
    assert found.word == "unsupported" and "its sentence says s, its record ms" in found.reason


def test_a_control_of_another_metric_is_unsupported():
    other = replace(LOSS.control, evidence="spine", where={"metric": "quickstart_s"})
    found = judge(replace(LOSS, control=other))
    assert found.word == "unsupported" and "negative control is quickstart_s" in found.reason


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
    found = judge(ratio)
    assert found.word == "unsupported" and "machine" in found.reason, found


def test_nested_toml_is_refused_in_words(tmp_path):
    file = tmp_path / "deep.toml"
    file.write_text("a = " + "[" * 5000 + "]" * 5000)
    with pytest.raises(Exception, match="not a claim"):
        claim.load(file)
