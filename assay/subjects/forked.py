"""A sequence implementation in a process that has made no other call, and may end as it likes."""

from collections.abc import Mapping
from typing import Any

from assay import host
from assay.captures.inputs import make
from assay.instruments import forks
from assay.instruments.forks import Answers
from assay.subjects.sequence import SequenceSubject, bind
from assay.workloads.spec import WorkloadSpec


def ask(
    function: str,
    call: SequenceSubject,
    spec: WorkloadSpec,
    *,
    timeout_s: float,
    memory_bytes: float | None = None,
) -> Answers | None:
    """Call `function`, named "module:function", on a request that `bound` takes; None where the
    implementation was not loaded from a file, so that no other process can load it."""
    path, framework = call.implementation.path, call.framework
    if path is None:
        return None
    ours = framework.__name__.startswith("assay.")  # a user's is not imported for all forks
    return forks.ask(
        function,
        {"name": str(path.resolve()), "spec": spec.as_dict(), "device": call.device},
        imports=(framework.__name__, *getattr(framework, "IMPORTS_LATER", ())) if ours else (),
        timeout_s=timeout_s,
        memory_bytes=memory_bytes,
    )


def bound(request: Mapping[str, Any]) -> SequenceSubject:
    """Bind what a request names; raises Unsupported as `bind` does."""
    workload = make(WorkloadSpec(**request["spec"]))
    return bind(request["name"], workload, host=host.inspect(), device=request["device"])
