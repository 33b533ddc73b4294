"""Pages in any order, NaN in all that no sequence has written."""

from assay.correctness import judge
from assay.correctness.decode.cases import BATCH, DecodeCases
from assay.correctness.refusal import refusal_text
from assay.host import Host
from assay.records.schema import Measurement
from assay.subjects.decode import DecodeSubject, pages
from assay.subjects.outcome import Unsupported
from assay.workloads.spec import WorkloadSpec
from assay.workloads.workload import Workload

_CAUSE = "pages are not followed: keys are read where another sequence's lie, or nothing does"
_SIZES = (16, 24, 32, 64, 128, 256)  # tokens of a page; the first two that are not refused


def cases(generator: DecodeCases) -> list[WorkloadSpec]:
    """Return lengths that are drawn, so that sequences end within pages; and a batch whose tables
    have more than 256 entries in pages of 16 tokens, and with its kv heads in pages of 24."""
    if not {"lengths", "pages"} <= generator.accepts:
        raise Unsupported("not run: its ACCEPTS does not name lengths and pages")
    common = {"padded": True, "batch": 3, "group": 2, "key_length": 96}
    many = {**common, "batch": BATCH, "key_length": 257}
    return generator.by_turns(common, {**common, "query_length": 2, "key_length": 300}, many)


def measure(call: DecodeSubject, workload: Workload, host: Host) -> list[Measurement]:
    """Compare output and LSE on shuffled pages."""
    if "pages" not in call.accepts:
        return [judge.unsupported("paged", "it takes no pages")]
    kept = _kept(call)
    comparisons = [c for each in kept for c in judge.compare_forward(each)]
    if all(c.holds for c in comparisons) or not judge.is_right(call):  # without pages
        return [judge.worst("paged", comparisons)]
    return [judge.worst("paged", comparisons, cause=_CAUSE)]


def _kept(call: DecodeSubject) -> list[DecodeSubject]:
    """The step over pages of two sizes; raises the last refusal where all are refused."""
    kept: list[DecodeSubject] = []
    for size in _SIZES:
        each = pages.shuffled(call, size=size)
        try:
            each()
        except Exception as error:
            if not refusal_text(error) or (size == _SIZES[-1] and not kept):
                raise
        else:
            kept.append(each)
        if len(kept) == 2:
            break
    return kept
