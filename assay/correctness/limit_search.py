"""Attempts at workloads one by one, and the limits that clean refusals show."""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from assay.attention.limits import WorkloadLimits
from assay.correctness.refusal import Outcome, outcome
from assay.records.verdicts import LIMITS
from assay.subjects.outcome import Begin
from assay.workloads.spec import WorkloadSpec

_MULTIPLES = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384)

# Announces each call, so that a crash has a name, and returns at the end.
Steps = Generator[Begin, None, Any]
Limits = TypeVar("Limits", bound=WorkloadLimits)


@dataclass(kw_only=True)
class LimitSearch(Generic[Limits]):
    """The limits known so far, the refusal that showed each, and the answer to each workload."""

    name: str
    bind: Callable[[WorkloadSpec], Any]
    limits: Limits
    refusals: dict[str, str] = field(default_factory=dict)
    answers: dict[WorkloadSpec, str | None] = field(default_factory=dict)

    def refused(self, spec: WorkloadSpec) -> Steps:
        """Call it; returns what a clean refusal says, None where it is not refused."""
        if spec in self.answers:
            return self.answers[spec]
        yield Begin(self.name, LIMITS, spec.name)
        first = outcome(self.bind, spec)
        self.answers[spec] = first.text
        self.noted(spec, first)
        return first.text

    def noted(self, spec: WorkloadSpec, first: Outcome) -> None:
        """Hook for what else a first call shows."""

    def choice(self, name: str, specs: Sequence[WorkloadSpec], values: Sequence[Any]) -> Steps:
        """Keep the values that are taken, where some are not."""
        texts = []
        for spec in specs:
            texts.append((yield from self.refused(spec)))
        taken = tuple(v for v, text in zip(values, texts, strict=True) if not text)
        if taken and len(taken) < len(values):
            self.keep(name, taken, next(filter(None, texts)))

    def multiples(self, at: Callable[[int], WorkloadSpec], start: int, *, longest: int) -> Steps:
        """Keep the multiple of all lengths, and the shortest and longest multiples of it, from a
        length `start` that is taken."""
        limits = self.limits
        refusals = []
        steps = [step for step in _MULTIPLES if step % limits.lengths == 0]  # of what is declared
        for step in steps:
            if not (text := (yield from self.refused(at(start + step)))):
                break
            refusals.append(text)
        if refusals and len(refusals) < len(steps):
            self.keep("lengths", step, refusals[0])
        multiple = self.limits.lengths
        for name, extreme in (("shortest", multiple), ("longest", longest // multiple * multiple)):
            if name in limits.as_dict or extreme == start:
                continue
            if text := (yield from self.refused(at(extreme))):
                taken, refused = start // multiple, extreme // multiple
                while abs(taken - refused) > 1:
                    middle = (taken + refused) // 2
                    if (yield from self.refused(at(middle * multiple))):
                        refused = middle
                    else:
                        taken = middle
                self.keep(name, taken * multiple, text)

    def keep(self, name: str, value: Any, text: str) -> None:
        self.limits = replace(self.limits, **{name: value})
        self.refusals[name] = text
