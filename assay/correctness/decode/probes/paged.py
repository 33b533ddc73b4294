"""Pages in any order, NaN in all that no sequence has written."""

from assay.correctness import judge
from assay.correctness.decode.cases import DecodeCases
from assay.host import Host
from assay.records.schema import Measurement
from assay.subjects.decode import DecodeSubject, pages
from assay.subjects.outcome import Unsupported
from assay.workloads.spec import WorkloadSpec
from assay.workloads.workload import Workload

_CAUSE = "pages are not followed: keys are read where another sequence's lie, or nothing does"
_SIZES = (16, 24)  # tokens of a page


def cases(generator: DecodeCases) -> list[WorkloadSpec]:
    """Return lengths that are drawn, so that sequences end within pages."""
    if not {"lengths", "pages"} <= generator.accepts:
        raise Unsupported("not run: its ACCEPTS does not name lengths and pages")
    common = {"padded": True, "batch": 3, "group": 2, "key_length": 96}
    return generator.by_turns(common, {**common, "query_length": 2})


def measure(call: DecodeSubject, workload: Workload, host: Host) -> list[Measurement]:
    """Compare output and LSE on shuffled pages of two sizes."""
    if "pages" not in call.accepts:
        return [judge.unsupported("paged", "it takes no pages")]
    kept = [pages.shuffled(call, size=size) for size in _SIZES]
    comparisons = [c for each in kept for c in judge.compare_forward(each)]
    return [judge.worst("paged", comparisons, cause=_CAUSE)]
