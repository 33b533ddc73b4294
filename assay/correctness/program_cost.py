"""Cost of cases under Triton's interpreter, which runs the programs of a grid one after another.

A case is counted first: its launches are made without running a program. The time of a program is
measured on what runs. So cases are chosen that fit, before any of them is waited for; of one that
does not, a smaller one takes the place.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from math import prod
from operator import ge, le
from types import ModuleType
from typing import Any

from assay.attention.interpreted import INTERPRETER
from assay.attention.limits import WorkloadLimits
from assay.correctness.refusal import refusal_text
from assay.instruments import progress
from assay.instruments.own_time import own_seconds
from assay.subjects.outcome import Unsupported
from assay.subjects.sequence import SequenceSubject
from assay.workloads.spec import WorkloadSpec

_MOST_S = 0.5  # of the programs of one call
_STEPS = 12  # by which a case is made smaller


class _Counted(BaseException):
    """Leaves a launch whose programs are counted and not run."""


class Programs:
    """Programs that Triton's interpreter has run here, and the seconds in which it did."""

    def __init__(self) -> None:
        self.run, self.seconds = 0, 0.0
        self._watched: ModuleType | None = None
        self._launched: int | None = None  # while launches are counted

    def watch(self) -> None:
        """Count from now on, where the interpreter is loaded; a program is a sign of progress."""
        module = sys.modules.get(INTERPRETER)
        if module is None or module is self._watched:
            return
        self._watched = module
        builder, executor = module.InterpreterBuilder, module.GridExecutor
        set_size, set_index, launch = (
            builder.set_grid_dim,
            builder.set_grid_idx,
            executor.__call__,
        )

        def sized(own: Any, *size: int) -> None:
            set_size(own, *size)
            if self._launched is not None:
                self._launched += prod(size)
                raise _Counted

        def indexed(own: Any, *index: int) -> None:
            self.run += 1
            progress.sign()
            set_index(own, *index)

        def launched(own: Any, *arguments: Any, **named: Any) -> None:
            start_s = own_seconds()
            try:
                launch(own, *arguments, **named)
            except _Counted:
                return
            finally:
                self.seconds += own_seconds() - start_s

        builder.set_grid_dim, builder.set_grid_idx = sized, indexed
        executor.__call__ = launched

    @contextmanager
    def counted(self) -> Iterator[Callable[[], int]]:
        """Within it no program is run; what it gives says how many would have been."""
        self._launched, before = 0, self.seconds
        launched = 0

        def count() -> int:
            return launched if self._launched is None else self._launched

        try:
            yield count
        finally:
            launched, self._launched, self.seconds = count(), None, before


PROGRAMS = Programs()


@dataclass(kw_only=True)
class ProgramCost:
    """Programs of cases, and the mean time of those that have run."""

    bind: Callable[[WorkloadSpec], SequenceSubject]
    made_smaller: int = 0
    fitting: list[tuple[int, int, int]] = field(default_factory=list)
    beyond: list[tuple[int, int, int]] = field(default_factory=list)
    counts: dict[WorkloadSpec, tuple[int, str | None]] = field(default_factory=dict)

    @property
    def program_s(self) -> float:
        """The mean time of a program."""
        return PROGRAMS.seconds / PROGRAMS.run if PROGRAMS.run else 0.0

    def programs(self, spec: WorkloadSpec) -> int:
        """Return how many programs a forward and a backward launch."""
        return self._counted(spec)[0]

    def refusal(self, spec: WorkloadSpec) -> str | None:
        """Return what a clean refusal says before the first program."""
        return self._counted(spec)[1]

    def fits(self, spec: WorkloadSpec) -> bool:
        """Return whether a call takes little time. One that is smaller in all ways than one that
        does, or larger than one that does not, is not counted."""
        if not self.program_s:  # nothing has run yet
            return True
        size = (spec.batch * spec.heads, spec.query_length, spec.key_length)
        if any(all(map(le, size, other)) for other in self.fitting):
            return True
        if any(all(map(ge, size, other)) for other in self.beyond):
            return False
        fits = self.programs(spec) * self.program_s <= _MOST_S
        (self.fitting if fits else self.beyond).append(size)
        return fits

    def fitted(self, specs: Sequence[WorkloadSpec], limits: WorkloadLimits) -> list[WorkloadSpec]:
        """Return the cases, for each that does not fit the largest like it that does."""
        chosen: dict[WorkloadSpec, None] = {}
        for turn, spec in enumerate(specs):
            inside = (limits.fitted(each, turn) for each in _smaller(spec))
            fitting = next((each for each in inside if each and self.fits(each)), None)
            self.made_smaller += fitting not in (None, spec)
            chosen |= {fitting: None} if fitting else {}
        return list(chosen)

    def _counted(self, spec: WorkloadSpec) -> tuple[int, str | None]:
        shape = replace(spec, seed=0, values="normal")
        if shape not in self.counts:
            self.counts[shape] = self._count(shape)
        return self.counts[shape]

    def _count(self, spec: WorkloadSpec) -> tuple[int, str | None]:
        with PROGRAMS.counted() as counted:
            try:
                call = self.bind(spec)
                if call.has_backward:
                    call.gradients()
                else:
                    call()
            except Unsupported as refusal:
                return 0, str(refusal)
            except Exception as error:  # of what was not computed, or a refusal
                return counted(), refusal_text(error)
            return counted(), None


def _smaller(spec: WorkloadSpec) -> Iterator[WorkloadSpec]:
    """Yield a case, and others ever smaller, with fewer queries than keys, or more, as it has: most
    kernels have programs for queries and heads, and loop over keys."""
    yield spec
    for _ in range(_STEPS):
        queries, keys = spec.query_length, spec.key_length
        if spec.batch > 2:
            spec = replace(spec, batch=2)
        elif spec.kv_heads > 1:
            spec = replace(spec, heads=spec.heads // spec.kv_heads, kv_heads=1)
        elif queries == keys > 3:
            spec = replace(spec, query_length=queries // 2 + 1, key_length=keys // 2 + 1)
        elif queries > 3 and (queries < keys or queries // 2 + 1 > keys):
            spec = replace(spec, query_length=queries // 2 + 1)
        elif keys > 3:
            spec = replace(spec, key_length=keys // 2 + 1)
        else:
            return
        yield spec
