"""Search for limits that an implementation keeps without declaring them.

A clean refusal (refusal.py) is a limit, not a defect. What raises anything else, or returns
garbage, is left inside for the probes to judge.

A few looks at awkward workloads come first; where none of them is refused there are no limits to
look for. Otherwise each limit is looked for by itself, from a workload that runs.

What the calls take shows whether it compiles for each shape: then a first call takes far longer
than a second one.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product

from assay.attention.limits import WorkloadLimits
from assay.correctness.limit_search import LimitSearch, Steps
from assay.correctness.program_cost import ProgramCost
from assay.correctness.refusal import Outcome, outcome
from assay.correctness.shared_shapes import looks as awkward_looks
from assay.correctness.shared_shapes import shapes as shared_shapes
from assay.instruments.launches import GRID_AXIS, was_refused
from assay.records.foreign_text import first_line
from assay.records.verdicts import LIMITS
from assay.subjects.outcome import Begin, device_lost
from assay.subjects.sequence import SequenceSubject
from assay.workloads.spec import WorkloadSpec

_LENGTHS, _HEAD_DIMS = (64, 128, 192, 256, 384, 1024), (64, 128, 32)  # of a workload that may run
_FEW_QUERIES = (16, 1)  # of one where as many queries as keys are refused
_ODD_DIMS, _ROUND_DIMS = (24, 80, 40, 96, 192), (16, 32, 64, 128, 256)
_GROUPS = (1, 2, 3, 4, 8)
_COMPILING_S, _COMPILING_RATIO = 0.25, 5  # a first call takes so long, and so many times a second
_COMPILED_SHAPES = 2  # of so many shapes: what starts up takes long but once
_WITH_GAPS = ("transposed", "strided")
_LONGEST, _LONGEST_QUICK = 1025, 257  # tried


@dataclass(frozen=True, kw_only=True)
class Domain:
    """Limits, declared or found, and for each that was found the refusal that showed it; where
    it compiles for each shape, workloads in the few shapes that all cases are to have."""

    limits: WorkloadLimits
    refusals: dict[str, str] = field(default_factory=dict)
    shapes: tuple[WorkloadSpec, ...] = ()
    compiles_each_call: bool = False

    @property
    def reason(self) -> str | None:
        """The limits in one line, with the line that declares them; None where there are none."""
        words = self.limits.words
        if not words:
            return None
        limits = [f"{text} ({self.refusals[name]})" if name in self.refusals else text
                  for name, text in words.items()]  # fmt: skip
        declare = f"; to declare it: LIMITS = {self.limits.as_dict}" if self.refusals else ""
        return f"it takes {', '.join(limits)}{declare}"


def find(
    name: str,
    bind: Callable[[WorkloadSpec], SequenceSubject],
    declared: WorkloadLimits,
    dtypes: Sequence[str],
    *,
    takes: Callable[[WorkloadSpec], bool],
    layouts: Sequence[str],
    quick: bool,
    gpu: bool = False,
    cost: ProgramCost | None = None,
) -> Steps:
    """Yield what is called next; returns the Domain. Declared limits are not looked for again.

    On a GPU the end of a grid's axis is looked for too, unless the check is `quick`. `takes` tells
    without a call whether a workload is not refused; `layouts` are those that the framework's
    arrays can have; with `cost`, what takes long is not called.
    """
    search = _Search(name=name, bind=bind, limits=declared, cost=cost)
    base = yield from search.base(dtypes)
    if base is None:
        return Domain(limits=declared)
    looks = [
        look if look.layout in layouts else replace(look, layout="plain")
        for look in awkward_looks(base, dtypes)
    ]
    if (yield from search.any_refused(looks)):
        yield from search.all_limits(base, dtypes, layouts=layouts, quick=quick)
    if gpu and not quick:
        yield from search.batch_heads(base)
    few = shared_shapes(base, dtypes, search.limits, takes) if search.compiles else ()
    return Domain(
        limits=search.limits,
        refusals=search.refusals,
        shapes=tuple(few),
        compiles_each_call=len(search.again) >= _COMPILED_SHAPES,
    )


@dataclass(kw_only=True)
class _Search(LimitSearch[WorkloadLimits]):
    """A search that notes workloads at which a first call took far longer than a second."""

    compiled: list[WorkloadSpec] = field(default_factory=list)
    again: list[WorkloadSpec] = field(default_factory=list)  # compiled in a second call too

    @property
    def compiles(self) -> bool:
        return len(self.compiled) >= _COMPILED_SHAPES

    def noted(self, spec: WorkloadSpec, first: Outcome) -> None:
        started_up = len(self.answers) > 1
        if started_up and not self.compiles and not first.text and first.seconds > _COMPILING_S:
            second = outcome(self.bind, spec, backward=first.backward)
            if second.compiled or first.seconds > _COMPILING_RATIO * second.seconds:
                self.compiled.append(spec)
            if second.compiled:
                self.again.append(spec)

    def all_limits(
        self, base: WorkloadSpec, dtypes: Sequence[str], *, layouts: Sequence[str], quick: bool
    ) -> Steps:
        """Look for each limit by itself."""
        yield from self.few_queries(base)
        yield from self.dtypes(base, dtypes)
        yield from self.masks(base)
        yield from self.head_dims(base)
        yield from self.groups(base)
        yield from self.lengths(base, longest=_LONGEST_QUICK if quick else _LONGEST)
        yield from self.queries(base)
        yield from self.layouts(base, layouts)

    def any_refused(self, specs: Sequence[WorkloadSpec]) -> Steps:
        for turn, spec in enumerate(specs):
            fitted = self.limits.fitted(spec, turn)
            if fitted and (yield from self.refused(fitted)):
                return True
        return False

    def base(self, dtypes: Sequence[str]) -> Steps:
        """Returns the plainest workload that is not refused, one of few queries where all others
        are; None where all are."""
        choices = product(*map(enumerate, (_LENGTHS, _HEAD_DIMS, dtypes, (True, False))))
        ordered = sorted(choices, key=lambda choice: sum(index for index, _ in choice))
        for few, choice in product((0, *_FEW_QUERIES), ordered):
            (_, length), (_, head_dim), (_, dtype), (_, causal) = choice
            spec = WorkloadSpec(
                batch=1, heads=2, kv_heads=2, query_length=few or length, key_length=length,
                head_dim=head_dim, dtype=dtype, causal=causal, seed=0,
            )  # fmt: skip
            fitted = self.limits.fitted(spec)
            if fitted and not (yield from self.refused(fitted)):
                return fitted
        return None

    def few_queries(self, base: WorkloadSpec) -> Steps:
        """The most queries, where as many as keys are refused."""
        queries, keys = base.query_length, base.key_length
        if self.limits.most_queries or queries == keys:
            return
        many = partial(_with_queries, base)
        if text := (yield from self.refused(many(keys))):
            self.keep("most_queries", (yield from self.edge(many, queries, keys)), text)

    def dtypes(self, base: WorkloadSpec, dtypes: Sequence[str]) -> Steps:
        if not self.limits.dtypes:
            yield from self.choice("dtypes", [replace(base, dtype=d) for d in dtypes], dtypes)

    def masks(self, base: WorkloadSpec) -> Steps:
        if self.limits.masks:
            return
        if text := (yield from self.refused(replace(base, causal=not base.causal))):
            self.keep("masks", "causal" if base.causal else "full", text)

    def head_dims(self, base: WorkloadSpec) -> Steps:
        """Try round and odd dimensions; no further odd one where the first two are refused."""
        if self.limits.head_dims or self.limits.widest:
            return
        odd = [replace(base, head_dim=dim) for dim in _ODD_DIMS]
        tried = len(_ODD_DIMS)
        if (yield from self.refused(odd[0])) and (yield from self.refused(odd[1])):
            tried = 2
        dims = sorted(_ODD_DIMS[:tried] + _ROUND_DIMS)
        yield from self.choice("head_dims", [replace(base, head_dim=dim) for dim in dims], dims)
        taken = self.limits.head_dims
        if len(taken) > 2 and list(taken) == dims[: len(taken)] and tried > 2:  # all up to one
            text = self.refusals.pop("head_dims")
            self.limits = replace(self.limits, head_dims=())
            self.keep("widest", taken[-1], text)

    def groups(self, base: WorkloadSpec) -> Steps:
        if not self.limits.groups:
            specs = [replace(base, heads=2 * group, kv_heads=2) for group in _GROUPS]
            yield from self.choice("groups", specs, _GROUPS)

    def lengths(self, base: WorkloadSpec, *, longest: int) -> Steps:
        """The multiple of all lengths, and the shortest and longest multiples of it."""

        def at(length: int) -> WorkloadSpec:
            queries = min(length, self.limits.most_queries or length)
            return replace(base, query_length=queries, key_length=length)

        yield from self.multiples(at, base.key_length, longest=longest)

    def queries(self, base: WorkloadSpec) -> Steps:
        """Fewer and more queries than keys."""
        if self.limits.queries:
            return
        if most := self.limits.most_queries:
            short = self.limits.fitted(replace(base, query_length=most, key_length=1))
            if short and short.key_length < most and (text := (yield from self.refused(short))):
                self.keep("queries", "at most keys", text)
            return
        length = base.key_length
        other = 2 * length
        if self.limits.longest and other > self.limits.longest:
            other = length - self.limits.lengths
        if other < self.limits.shortest:
            return
        few, many = sorted((length, other))
        fewer = yield from self.refused(replace(base, query_length=few, key_length=many))
        more = yield from self.refused(replace(base, query_length=many, key_length=few))
        if fewer and more:
            self.keep("queries", "equal", fewer)
        elif more:
            self.keep("queries", "at most keys", more)
        elif fewer:
            self.keep("queries", "at least keys", fewer)

    def batch_heads(self, base: WorkloadSpec) -> Steps:
        """The end of a grid's axis, where a launch beyond it is refused and one before is not."""
        tiny = {"batch": 1, "heads": 1, "kv_heads": 1, "query_length": 1, "key_length": 1}
        spec = self.limits.fitted(replace(base, **tiny, head_dim=16))
        if self.limits.batch_heads or spec is None:
            return
        yield Begin(self.name, LIMITS, spec.name)
        error = self._raised(spec, GRID_AXIS // spec.heads + 1)
        if error and was_refused(error) and not self._raised(spec, GRID_AXIS // spec.heads):
            text = f"{type(error).__name__}: {first_line(error, 200)}"
            self.keep("batch_heads", GRID_AXIS, text)

    def _raised(self, spec: WorkloadSpec, repeats: int) -> Exception | None:
        """Return the error of a call on a repeated batch, or of its backward if it has one."""
        try:
            call = self.bind(spec).repeated(repeats)
            call.gradients() if call.has_backward else call()
            call.synchronize()
        except Exception as error:
            if device_lost(error):
                raise
            return error
        return None

    def layouts(self, base: WorkloadSpec, layouts: Sequence[str]) -> Steps:
        tried = [layout for layout in _WITH_GAPS if layout in layouts]
        if self.limits.contiguous or not tried:
            return
        texts = []
        for layout in tried:
            texts.append((yield from self.refused(replace(base, layout=layout))))
        if all(texts):
            self.keep("contiguous", True, texts[0])


def _with_queries(base: WorkloadSpec, queries: int) -> WorkloadSpec:
    return replace(base, query_length=queries)
