"""`assay.bench(fn, against="sdpa")`: how fast is it? A run, as `assay bench` makes one."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.errors import BadInput
from assay.python.declarations import require_declarations
from assay.python.loading import RunRecords

if TYPE_CHECKING:
    from assay.records.run import RunFolder
    from assay.studies.execute import Observer

Subject = Callable[..., Any] | str | Path
# With either, each implementation is checked on its workload before it is timed.
_QUICK, _WHOLE = "host,bench", "host,suite,bench"


def bench(
    attention: Subject | Sequence[Subject],
    *,
    against: Subject | Sequence[Subject] = (),
    workload: str | Sequence[str] = (),
    probe: str | Sequence[str] = (),
    dtype: str | Sequence[str] = (),
    device: str | None = None,
    seed: int | None = None,
    quick: bool = False,
    config: str | Path | None = None,
    settings: Mapping[str, object] | None = None,
    plugins: Sequence[str | Path] = (),
    out: str | Path = "results",
    fresh: bool = False,
    framework: str = "torch",
    **declared: Any,
) -> RunRecords:
    """Time implementations side by side, each checked first, and return the records of the run.

    An implementation is a name, a file, or a function `attention(q, k, v, *, causal, scale)`; the
    first of `against` is what ratios are taken to. Each is measured in processes of its own, so a
    function of a notebook is first written to a file below `out`, with all that it uses. `declared`
    says of the functions in `attention`, not of those in `against`, what a file says in literals:
    accepts, layout, configs, backward, deterministic_backward, supports, prepare; `framework` is
    that of all functions. `settings` are symbols of a study, such as {"ROUNDS": 20}. Ceilings and
    verdicts that runs in `out` measured within a day are taken over unless all is to be `fresh`.
    """
    from assay.python.function_files import DECLARATIONS
    from assay.verbs import _flags as flags

    measured, others = _subjects(attention), _subjects(against)
    if not measured:
        raise BadInput("assay.bench was given nothing to measure; give a function, name or file")
    require_declarations(bench, measured, declared, known=DECLARATIONS)
    subjects = [_entry(each, Path(out), framework, declared) for each in measured]
    baselines = [_entry(each, Path(out), framework, {}) for each in others]
    stages = [] if config else [f"STAGES={_QUICK if quick else _WHOLE}", "SUITE_QUICK=y"]
    chosen = flags.as_settings(
        impl=",".join(dict.fromkeys([*baselines, *subjects])),
        workload=_listed(workload),
        probe=_listed(probe),
        dtype=_listed(dtype),
        device=device,
        seed=seed,
        quick=quick,
    )
    study = flags.load_study(
        config=Path(config) if config else None,
        sets=[f"{symbol}={value}" for symbol, value in (settings or {}).items()],
        plugins=[Path(folder) for folder in plugins],
        flags=[*stages, *chosen],
    )
    return _run(study, Path(out), reuse=not (fresh or config))


def _run(study: Any, results: Path, *, reuse: bool) -> RunRecords:
    from assay import host
    from assay.records import run
    from assay.studies import execute, launching, plan, session

    here = host.inspect()
    launching.begin_imports(plan.on_device(study, here))
    name = "bench" if study.study == "unnamed" else study.study
    with session.started(study, here, results, name, reuse=reuse) as active:
        with _observed(active.folder) as observer:
            execute.execute(active, observer)
        folder = active.folder.path.resolve()
    # As its folder has them: read again, it is the same.
    return RunRecords(run.load_records(folder), folders=(folder,), plugins=study.plugin_folders)


class _Silence:
    """An observer for a program whose output is its own."""

    def stage(self, name: str, due: int, total: int) -> None: ...
    def cell(self, name: str, status: str, reason: str | None, elapsed_s: float) -> None: ...
    def note(self, text: str) -> None: ...


@contextmanager
def _observed(folder: "RunFolder") -> "Iterator[Observer]":
    """A bar where a person looks on, else nothing."""
    from assay.verbs._progress import Progress

    if not sys.stderr.isatty():
        yield _Silence()
        return
    with Progress(folder) as progress:
        yield progress


def _subjects(given: Subject | Sequence[Subject]) -> list[Subject]:
    return list(given) if isinstance(given, list | tuple) else [given]


def _entry(given: Subject, results: Path, framework: str, declared: dict[str, Any]) -> str:
    """The entry of IMPLEMENTATIONS that stands for what was given."""
    from assay.python.function_files import write_function

    if isinstance(given, str | Path):
        return str(given)
    if not callable(given):
        raise BadInput(
            f"assay.bench was given {given!r}; wanted a function attention(q, k, v, *, causal, "
            "scale), or the name or file of an implementation"
        )
    return str(write_function(given, results, framework=framework, declared=declared))


def _listed(given: str | Sequence[str]) -> str | None:
    return (given if isinstance(given, str) else ",".join(given)) or None
