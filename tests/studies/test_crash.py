"""The cause of a process that ended, told by a case in whole blocks."""

from assay.records.schema import Measurement
from assay.studies import crash
from assay.studies.crash import ENDS


def ended(metric, case):
    reason = crash.at_case(case, "the process was ended by SIGSEGV") if case else "no case"
    return Measurement(
        metric=metric, value=None, unit="", status="failed", reason=reason, cause=ENDS
    )


def test_a_kernel_of_whole_blocks_is_told_as_one():
    """triton-flash-attention asserts nothing and reads beyond its arrays at 65 tokens."""
    asked = []
    tail, other = "b1_h2_kv2_q65_k65_d64_causal_float16", "b1_h2_kv2_q33_k130_d64_full_float16"
    before = [ended("limits", tail), ended("shapes", other), ended("batch", "")]
    after = crash.explained(before, lambda spec: asked.append(spec.name) or True)
    assert asked == ["b1_h2_kv2_q128_k128_d64_causal_float16"], "once, for the first of them"
    assert after[0].cause == after[1].cause
    assert "no multiple of 128, and is right at 128 x 128" in after[0].cause
    assert after[2] == before[2]


def test_nothing_is_said_where_whole_blocks_end_it_too():
    tail = [ended("limits", "b1_h2_kv2_q65_k65_d64_causal_float16_seed4_strided")]
    assert crash.explained(tail, lambda spec: False) == tail
    whole = [ended("limits", "b1_h2_kv2_q128_k256_d64_causal_float16")]
    assert crash.explained(whole, lambda spec: True) == whole


def test_a_large_batch_that_ends_it_is_no_tail():
    """A kernel whose 32-bit index wraps read beyond its arrays on an H200, in `large` alone; it was
    told as one of whole blocks, because 16 keys of the small batch are no multiple of 128."""
    asked = []
    large = [ended("large", "b3_h2_kv1_q1024_k16_d64_full_float16")]
    (after,) = crash.explained(large, lambda spec: asked.append(spec.name) or True)
    assert asked == ["b3_h2_kv1_q1024_k16_d64_full_float16"], "the batch alone"
    assert after.cause.endswith("right on a small one: an index overflows")
    assert crash.explained(large, lambda spec: False) == large
