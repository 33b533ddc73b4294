"""An implementation under test: where its cases run, and how they are bound and generated."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from assay.attention.contract import Implementation
from assay.captures.inputs import make
from assay.correctness.cases import CaseGenerator, shapes_of_models
from assay.correctness.second_process import SecondProcessResult
from assay.host import Host
from assay.subjects.contract import SOURCE
from assay.subjects.sequence import SequenceSubject, bind_loaded
from assay.workloads.spec import WorkloadSpec
from assay.workloads.workload import Workload

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

    @property
    def has_backward(self) -> bool:
        """True where it has a backward on the device of its cases."""
        return self.implementation.has_backward(self._here)

    def takes(self, spec: WorkloadSpec) -> bool:
        """Return whether it does not refuse a case, without calling it."""
        return self.implementation.refusal(spec, self._here) is None

    @property
    def _here(self) -> Host:
        """The host with the device of its cases alone."""
        own = tuple(d for d in self.host.devices if d.label == self.device)
        return replace(self.host, devices=own)

    def bind(self, spec: WorkloadSpec) -> SequenceSubject:
        workload = _held(spec) if shapes_of_models(spec) else make(spec)
        call = bind_loaded(self.implementation, workload, host=self.host, device=self.device)
        return replace(call, in_second_process=self.in_second_process)


@lru_cache(maxsize=16)
def _held(spec: WorkloadSpec) -> Workload:
    """The arrays of a case that several probes have: its reference is computed once."""
    return make(spec)


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
        backward=implementation.backward is not False,
    )
