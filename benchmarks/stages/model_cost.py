"""What each variant of GPT-2 costs against the baseline, beside what its counted work predicts.

Two cells: `training` (forward, and forward with backward) and `decode` (one token through a full
cache), at the size of GPT-2 124M on a GPU and tiny on a CPU. Nothing is timed before it is right.

    assay study run --plugins benchmarks --set STUDY=model-cost --set STAGES=model_cost
"""

from collections.abc import Iterator

from assay.code_digests import code_digests
from assay.models.gpt2 import steps
from assay.plugins import PACKAGE
from assay.records.identity import digest
from assay.records.schema import Measurement
from assay.studies.cell import Cell
from assay.studies.study import Study
from assay.subjects.outcome import Begin

AFTER = ()
# Of the rounds of a pass, and of the profiles of its subjects: what takes longer ends early.
ROUNDS_S = 45
PROFILED_S = 40
LARGE = {
    "training": {"size": "124M", "batch": 8, "length": 1024},
    "decode": {"size": "124M", "batches": [64, 1], "length": 1024},
}
SMALL = {
    "training": {"size": "tiny", "batch": 2, "length": 15},
    "decode": {"size": "tiny", "batches": [4, 1], "length": 16},
}


def names() -> tuple[str, ...]:
    """Every variant that a named step has, the baseline first."""
    named = sorted((s for s in steps.STEPS if s.family == "named"), key=lambda s: not s.baseline)
    return tuple(dict.fromkeys(step.variant for step in named))


def cells(study: Study) -> list[Cell]:
    """Two cells. Parts of models are found by their folder, so that all files there count."""
    code = digest(code_digests(*(PACKAGE / "models").rglob("*.py")))
    how = {"rounds": study.rounds, "warmup": study.warmup, "budget_s": ROUNDS_S}
    plan = {"how": how, "profiled_s": PROFILED_S, "machine": None}
    return [
        Cell(
            name=name,
            subjects=names(),
            device=study.device,
            options={**sizes, **plan, "code": code},
        )
        for name, sizes in (SMALL if study.device == "cpu" else LARGE).items()
    ]


def run(cell: Cell) -> Iterator[Begin | Measurement]:
    """The machine's ceilings, and the passes of this cell."""
    from _model_cost import decode, machine, training
    from _model_cost.subjects import Shape

    plan = cell.options
    if plan["machine"]:
        ceilings = machine.given(plan["machine"])
    else:
        ceilings, found = machine.measured(cell.device)
        yield from found
    shape = Shape(size=plan["size"], device=cell.device)
    passes = {"training": training.run, "decode": decode.run}[cell.name]
    yield from passes(cell.subjects, shape, ceilings, plan)
