"""An implementation under test: where its cases run, and how they are bound and generated."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from assay.attention.contract import Implementation
from assay.captures.inputs import make
from assay.correctness.cases import CaseGenerator
from assay.correctness.second_process import SecondProcessResult
from assay.host import Host
from assay.subjects.contract import SOURCE
from assay.subjects.sequence import SequenceSubject, bind_loaded
from assay.workloads.spec import WorkloadSpec

SecondResults = Callable[[WorkloadSpec], SecondProcessResult | None]


@dataclass(frozen=True, kw_only=True)
class TestedImplementation:
    """An implementation, and the device on which its cases are run."""

    implementation: Implementation
    host: Host
    device: str
    # Starts a second process on some cases, and gives a function to ask for the result of one.
    second: Callable[[Sequence[WorkloadSpec]], SecondResults] | None = None
    in_second_process: SecondResults | None = None
    fresh: Callable[[], Implementation] | None = None  # loads a copy that was never called

    @property
    def name(self) -> str:
        return self.implementation.name

    @property
    def source(self) -> str:
        """Source of the budgets of its verdicts, in words."""
        words = self.implementation.precision.words("float32")
        return f"{SOURCE}; {words}" if words else SOURCE

    def takes(self, spec: WorkloadSpec) -> bool:
        """Return whether it does not refuse a case, without calling it."""
        here = replace(
            self.host, devices=tuple(d for d in self.host.devices if d.label == self.device)
        )
        return self.implementation.refusal(spec, here) is None

    def bind(self, spec: WorkloadSpec) -> SequenceSubject:
        call = bind_loaded(self.implementation, make(spec), host=self.host, device=self.device)
        return replace(call, in_second_process=self.in_second_process)


def case_generator(
    implementation: Implementation,
    *,
    seed: int,
    count: int,
    quick: bool,
    device: str,
    dtypes: Sequence[str],
) -> CaseGenerator:
    """Return the generator of the cases that an implementation is tested on."""
    return CaseGenerator(
        seed=seed,
        count=count,
        quick=quick,
        gpu=device != "cpu",
        dtypes=tuple(dtypes),
        accepts=implementation.accepts,
        configs=implementation.configs,
    )
