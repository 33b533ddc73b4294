"""`assay.check(fn)`: the suite in this process, for a function that is already here."""

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from assay import host, plugins
from assay.attention import contract, interpreted
from assay.attention.contract import Implementation
from assay.correctness import suite
from assay.correctness.cases import BUDGET_S, CASES, QUICK_CASES
from assay.correctness.tested import TestedImplementation, case_generator
from assay.errors import BadInput, unknown_name
from assay.records.schema import Measurement
from assay.records.verdicts import CONDITIONS, LIMITS, NO_VERDICTS, cases_run
from assay.workloads.spec import DTYPES, parse


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Outcome of the suite for one implementation; true where every probe that ran holds."""

    name: str
    measurements: tuple[Measurement, ...]

    @property
    def failures(self) -> tuple[Measurement, ...]:
        return tuple(m for m in self.measurements if m.status not in ("ok", "unsupported"))

    @property
    def incomplete(self) -> tuple[Measurement, ...]:
        """Those of the failures that ran out of time before all their cases were run."""
        return tuple(m for m in self.failures if cases_run(m))

    @property
    def holding(self) -> tuple[Measurement, ...]:
        return tuple(
            m for m in self.measurements if m.status == "ok" and m.metric not in NO_VERDICTS
        )

    @property
    def limits(self) -> str | None:
        """Limits inside which it was checked, in words; None where it has none."""
        return self._noted(LIMITS)

    @property
    def conditions(self) -> str | None:
        """Conditions of the verdict besides limits, in words: shapes, precision, parts that were
        not examined; None where there are none."""
        return self._noted(CONDITIONS)

    def _noted(self, metric: str) -> str | None:
        texts = [m.reason for m in self.measurements if m.metric == metric and m.reason]
        return "; ".join(texts) or None

    def __bool__(self) -> bool:
        return bool(self.holding) and not self.failures


def check(
    attention: Callable[..., Any] | str,
    *,
    quick: bool = False,
    cases: int | None = None,
    budget_s: float | None = None,
    probes: Sequence[str] | None = None,
    workloads: Sequence[str] = (),
    dtypes: Sequence[str] = DTYPES,
    device: str = "cpu",
    seed: int = 0,
    framework: str = "torch",
    **declared: Any,
) -> Verdict:
    """Run every correctness probe on a function `attention(q, k, v, *, causal, scale)`, or on an
    implementation given by its name or file; on the cases that `workloads` names, if any.

    `declared` says of a function what a file says in literals: accepts, layout, configs, backward,
    deterministic_backward, supports, prepare. It runs in this process: a function that hangs or
    ends its process is for `assay check FILE`, and there is no second process to compare bits with.
    """
    here = host.inspect()
    if "triton" not in sys.modules:  # else it would be too late
        os.environ.update(interpreted.chosen(here.devices))
    implementation = _implementation(attention, framework, declared)
    listing = plugins.listing("probes")
    names = [name for name, probe in listing.items() if suite.makes_cases(probe)]
    if unknown := sorted(set(probes or ()) - set(names)):
        raise BadInput(unknown_name("correctness probe", unknown[0], names))
    generator = case_generator(
        implementation,
        seed=seed,
        count=cases or (QUICK_CASES if quick else CASES),
        quick=quick,
        device=device,
        dtypes=dtypes,
    )
    tested = TestedImplementation(
        implementation=implementation,
        host=here,
        device=device,
        fresh=(lambda: contract.load(attention)) if isinstance(attention, str) else None,
    )
    chosen = {name: plugins.load(listing[name]) for name in names if not probes or name in probes}
    only = [parse(name, defaults=generator.spec()) for name in workloads]
    events = suite.run(tested, chosen, generator, budget_s=budget_s or BUDGET_S, only=only)
    measurements = tuple(event for event in events if isinstance(event, Measurement))
    return Verdict(name=implementation.name, measurements=measurements)


def _implementation(
    attention: Callable[..., Any] | str, framework: str, declared: dict[str, Any]
) -> Implementation:
    if isinstance(attention, str):
        return contract.load(attention)
    if not callable(attention):
        raise BadInput(
            f"assay.check was given {attention!r}; wanted a function "
            "attention(q, k, v, *, causal, scale), or the name or file of an implementation"
        )
    if "accepts" in declared:
        declared["accepts"] = frozenset(declared["accepts"])
    name = getattr(attention, "__name__", type(attention).__name__)
    if module := sys.modules.get(getattr(attention, "__module__", "")):
        declared.setdefault("interpreted", interpreted.has_interpreted_kernels(module))
    return Implementation(name=name, attention=attention, framework=framework, **declared)
