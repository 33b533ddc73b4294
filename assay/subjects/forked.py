"""A subject in a process that has made no other call, and may end as it likes."""

from collections.abc import Mapping
from typing import Any

from assay import host, plugins, subjects
from assay.instruments import forks
from assay.instruments.forks import Answers
from assay.subjects.contract import Subject
from assay.workloads.spec import WorkloadSpec


def ask(
    function: str,
    call: Subject,
    spec: WorkloadSpec,
    *,
    timeout_s: float,
    memory_bytes: float | None = None,
) -> Answers | None:
    """Call `function`, named "module:function", on a request that `bound` takes; None where no
    other process can load the implementation."""
    name, framework = _name_elsewhere(call), call.framework
    if name is None:
        return None
    ours = framework.__name__.startswith("assay.")  # a user's is not imported for all forks
    return forks.ask(
        function,
        {
            "kind": call.kind,
            "name": name,
            "spec": spec.as_dict(),
            "device": call.device,
        },
        imports=(framework.__name__, *getattr(framework, "IMPORTS_LATER", ())) if ours else (),
        timeout_s=timeout_s,
        memory_bytes=memory_bytes,
    )


def _name_elsewhere(call: Subject) -> str | None:
    """Name by which another process loads an implementation: its file, with the layout that a
    decode kernel reads, or of our layers its own."""
    if call.kind == "layers":
        ours = subjects.plugin_name(call.kind, call.name) in plugins.listing(call.kind)
        return call.name if ours else None
    path = call.implementation.path
    if path is None:
        return None
    layout = f"{call.name.partition(':')[0]}:" if call.kind == "decode" else ""
    return f"{layout}{path.resolve()}"


def bound(request: Mapping[str, Any]) -> Subject:
    """Bind what a request names; raises Unsupported as `bind` does."""
    kind = subjects.kind_named(request["kind"])
    inputs = kind.make(WorkloadSpec(**request["spec"]))
    return kind.bind(
        request["name"], inputs, host=host.inspect(commit=False), device=request["device"]
    )
