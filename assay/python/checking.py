"""`assay.check(fn)`: is it right? The verdict, with a row for each probe."""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from assay import host, plugins
from assay.correctness import verdict
from assay.correctness.cases import BUDGET_S
from assay.correctness.verdict import Verdict
from assay.errors import BadInput, CannotRunHere
from assay.python.declarations import require_declarations
from assay.python.function_files import DECLARATIONS
from assay.python.tabular import Tabular
from assay.records.check_answer import Answer, check_answer
from assay.records.explanation import explained
from assay.records.schema import Measurement
from assay.records.verdicts import NO_VERDICTS
from assay.workloads.spec import DTYPES, full_dtypes

if TYPE_CHECKING:
    from assay.reports.chart import Chart
    from assay.reports.table import Table

_LARGEST_LINEAR = 3.0  # beyond it the points within budget could no longer be told apart


@dataclass(frozen=True, kw_only=True, repr=False)
class CheckResult(Tabular, Verdict):
    """The verdict on one implementation: true where every probe that ran holds, a sequence of the
    measurements of its probes."""

    budget_s: float | None = None  # seconds that its cases had
    given: str = ""  # a name or file; empty for a function

    def __str__(self) -> str:
        """The answer, then what explains it."""
        return "\n".join([*self.answer.lines, *(f"  {note}" for note in self._notes())])

    def _notes(self) -> list[str]:
        """Every mistake with its case, and the limits and conditions of the verdict."""
        wrong = [each for each in self.failures if each not in self.incomplete]
        return [*map(str, explained(wrong)), *filter(None, (self.limits, self.conditions))]

    def __len__(self) -> int:
        return len(self.measurements)

    def __getitem__(self, place: Any) -> Any:
        return self.measurements[place]

    @property
    def probes(self) -> tuple[Measurement, ...]:
        """A measurement for each probe; limits and conditions of the verdict are no probes."""
        return tuple(m for m in self.measurements if m.metric not in NO_VERDICTS)

    @property
    def answer(self) -> Answer:
        """The lines that a reader can act on, and a word for programs."""
        again = "give budget_s={}"
        return check_answer(
            self.name, self.measurements, repeat=self._repeat, budget_s=self.budget_s, add=again
        )

    def _repeat(self, failure: Measurement) -> str:
        case = f', workloads=["{failure.workload.name}"]' if failure.workload else ""
        subject = repr(self.given) if self.given else self.name
        return f'assay.check({subject}, probes=["{failure.metric}"]{case})'

    def _answer(self) -> list[str]:
        return list(self.answer.brief)

    def _columns(self) -> dict[str, list[Any]]:
        probes = self.probes
        return {
            "probe": [m.metric for m in probes],
            "status": [m.status for m in probes],
            "cases": [len(m.samples) for m in probes],
            "value": [m.value for m in probes],
            "unit": [m.unit for m in probes],
            "workload": [m.workload.name if m.workload else None for m in probes],
            "reason": [m.reason for m in probes],
            "cause": [m.cause for m in probes],
        }

    def _table(self) -> "Table":
        from dataclasses import replace

        table = super()._table().without("unit", "workload", "reason", "cause")
        columns = ("probe", "status", "cases", "worst error over budget")
        return replace(table, columns=columns, note="\n".join(self._notes()))

    def _charts(self) -> "list[Chart]":
        """The worst error of each probe as a share of what is allowed; zeros have no place on the
        logarithmic scale that errors far beyond it need."""
        from assay.reports.chart import Chart, Series

        known = {m.metric: m.value for m in self.probes if m.value is not None}
        far = max(known.values(), default=0.0) > _LARGEST_LINEAR
        drawn = {probe: value for probe, value in known.items() if value or not far}
        if not drawn:
            return []
        series = Series(subject=self.name, x=tuple(drawn), y=tuple(drawn.values()))
        return [
            Chart(
                name="check",
                title=f"{self.name}: worst error of each probe",
                x_label="probe",
                y_label="error over budget (ratio)",
                series=(series,),
                log_y=far,
                limit=1.0,
                limit_name="budget",
            )
        ]


def check(
    attention: Callable[..., Any] | str | Path,
    *,
    quick: bool = False,
    cases: int | None = None,
    budget_s: float | None = None,
    probes: str | Sequence[str] | None = None,
    workloads: str | Sequence[str] = (),
    dtypes: str | Sequence[str] = DTYPES,
    device: str = "cpu",
    seed: int = 0,
    framework: str = "torch",
    **declared: Any,
) -> CheckResult:
    """Run every correctness probe on a function `attention(q, k, v, *, causal, scale)`, or on an
    implementation given by its name or file; on the cases that `workloads` names, if any.

    It runs in this process, so a function of a notebook or a prompt is as good as a file; what a
    file would declare is given by keyword: accepts, layout, configs, backward,
    deterministic_backward, supports, prepare.
    """
    given = str(attention) if isinstance(attention, Path) else attention
    _require_device(device)
    require_declarations(check, [given], declared, known=DECLARATIONS)
    if callable(given) and "prepare" not in declared:
        _require_signature(given, framework, device)
    if any(number is not None and not number > 0 for number in (cases, budget_s)):
        raise BadInput(f"assay.check needs cases and seconds above 0, not {cases}, {budget_s}")
    judged = verdict.check(
        given,
        quick=quick,
        cases=cases,
        budget_s=budget_s,
        probes=_several(probes or ()),
        workloads=_several(workloads),
        dtypes=full_dtypes(",".join(_several(dtypes))).split(","),
        device=device,
        seed=seed,
        framework=framework,
        **declared,
    )
    return CheckResult(
        name=judged.name,
        measurements=judged.measurements,
        budget_s=budget_s or BUDGET_S,
        given=given if isinstance(given, str) else "",
    )


def _several(given: str | Sequence[str]) -> list[str]:
    """Names in a list, or in a text with commas between."""
    return [name for name in given.split(",") if name] if isinstance(given, str) else list(given)


def _require_signature(attention: Callable[..., Any], framework: str, device: str) -> None:
    """Refuse a function that a call (q, k, v, causal=..., scale=...) does not fit, before any case;
    one of a library in C, which has no signature to read, is called once."""
    call, arrays = attention, (0, 0, 0)
    try:
        call = inspect.signature(attention).bind
    except ValueError:
        place = plugins.load(plugins.find("frameworks", framework)).place
        arrays = (place(np.zeros((1, 1, 1, 16)), "float32", device),) * 3
    try:
        call(*arrays, causal=True, scale=1.0)
    except TypeError as error:
        name = getattr(attention, "__name__", repr(attention))
        raise BadInput(
            f"assay.check calls {name}(q, k, v, causal=..., scale=...), which it does not take: "
            f"{str(error).splitlines()[0]}; write a function around it: "
            "def my_attention(q, k, v, *, causal, scale)"
        ) from None
    except Exception:  # its own, which a case shows
        return


def _require_device(device: str) -> None:
    """Refuse a device that is not here: a kernel would be blamed for it."""
    labels = [each.label for each in host.inspect(commit=False).devices]
    if device not in labels and f"{device}:0" not in labels:
        raise CannotRunHere(f"there is no device {device!r} here; there are {', '.join(labels)}")


def assert_sound(attention: Callable[..., Any] | str | Path, **options: Any) -> None:
    """Raise AssertionError with the verdict unless `check` holds; quick by default, for tests."""
    __tracebackhide__ = True  # pytest shows the caller's line
    judged = check(attention, **{"quick": True, **options})
    if not judged:
        raise AssertionError(str(judged))
