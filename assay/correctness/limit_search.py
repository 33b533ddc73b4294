"""Attempts at workloads one by one, and the limits that clean refusals show."""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from assay.attention.limits import WorkloadLimits
from assay.correctness.program_cost import ProgramCost
from assay.correctness.refusal import Outcome, outcome
from assay.records.verdicts import LIMITS
from assay.subjects.outcome import Begin
from assay.workloads.spec import WorkloadSpec

_MULTIPLES = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384)
_WHOLE, _SHORTEST_BLOCK = 256, 16  # a multiple of the blocks of most kernels

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
    cost: ProgramCost | None = None  # under an interpreter, where what takes long is not run

    def refused(self, spec: WorkloadSpec) -> Steps:
        """Call it; returns what a clean refusal says, None where it is not refused."""
        if spec not in self.answers and self.cost:
            text = self.cost.refusal(spec)
            if text or not self.cost.fits(spec):
                self.answers[spec] = text
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
        """Keep the multiple of all lengths, the longest that need be no multiple of it, and the
        shortest and longest of all, from a length `start` that is taken."""
        limits = self.limits
        refusals = []
        steps = [step for step in _MULTIPLES if step % limits.lengths == 0]  # of what is declared
        for step in steps:
            if not (text := (yield from self.refused(at(start + step)))):
                break
            refusals.append(text)
        if refusals and len(refusals) < len(steps):
            self.keep("lengths", step, refusals[0])
        if limits.lengths == 1 and not limits.any_up_to:
            yield from self._blocks(at, start)
        multiple, free = self.limits.lengths, self.limits.any_up_to
        whole = start if start % multiple == 0 else _WHOLE
        for name, step, extreme, taken in (
            (
                "shortest",
                1 if free else multiple,
                1 if free else multiple,
                min(free, start) or whole,
            ),
            ("longest", multiple, longest // multiple * multiple, whole),
        ):
            if name in limits.as_dict or extreme == taken:
                continue
            if text := (yield from self.refused(at(extreme))):
                self.keep(name, (yield from self.edge(at, taken, extreme, step=step)), text)

    def _blocks(self, at: Callable[[int], WorkloadSpec], start: int) -> Steps:
        """Keep the block of a kernel that takes what is shorter as a block of its own: any length
        up to 128, and multiples of 128 beyond."""
        step, free = self.limits.lengths, 0
        text = yield from self.refused(at(_WHOLE + step))
        if text and not (yield from self.refused(at(_WHOLE))):
            longer = [n for n in _MULTIPLES if n > step and n % step == 0]
            for block in longer:
                if not (yield from self.refused(at(_WHOLE + block))):
                    self.keep("lengths", block, text)
                    break
            if step == 1 and self.limits.lengths > 1:
                is_long = not (yield from self.refused(at(_WHOLE - 1)))
                ends = (_WHOLE, _WHOLE + 1) if is_long else (start, _WHOLE - 1)
                free = yield from self.edge(at, *ends)
        elif step >= _SHORTEST_BLOCK and not (yield from self.refused(at(step // 2 + 1))):
            free = yield from self.edge(at, step // 2 + 1, step)
            free += free == step - 1  # the block itself is one
        self.limits = replace(self.limits, any_up_to=free)

    def edge(
        self, at: Callable[[int], WorkloadSpec], taken: int, refused: int, *, step: int = 1
    ) -> Steps:
        """Returns the last multiple of `step` that is taken on the way to one that is refused."""
        low, high = taken // step, refused // step
        while abs(low - high) > 1:
            middle = (low + high) // 2
            if (yield from self.refused(at(middle * step))):
                high = middle
            else:
                low = middle
        return low * step

    def keep(self, name: str, value: Any, text: str) -> None:
        self.limits = replace(self.limits, **{name: value})
        self.refusals[name] = text
