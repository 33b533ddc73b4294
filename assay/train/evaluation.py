"""Evals of a model as measurements: each score a record, and each eval that could not be scored."""

import traceback
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay import plugins
from assay.errors import BadInput, CannotRunHere
from assay.instruments.out_of_memory import ran_out
from assay.records.schema import Measurement
from assay.train.eval_choice import EvalChoice, all_chosen
from assay.train.eval_score import EvalScore

if TYPE_CHECKING:
    from assay.train.text_model import TextModel

PREFIX = "eval."


def evaluated(
    model: "TextModel",
    names: Sequence[str],
    *,
    folders: Sequence[Path] = (),
    data: Mapping[str, Any] | None = None,
) -> Iterator[Measurement]:
    """Score a model on every eval that `names` has entries of; `data` goes into all records. What
    one eval refuses keeps none of the others from being scored."""
    for choice in all_chosen(names, folders):
        about = {**(data or {}), "entry": choice.name, "state": model.state}
        try:
            choice.require()
            module = plugins.load(choice.plugin)
            scores = list(module.score(model, choice.file, **choice.options))
        except BadInput as error:
            yield _without_value(model, choice, "failed", str(error), about)
        except CannotRunHere as error:
            yield _without_value(model, choice, "skipped", str(error), about)
        except Exception as error:  # of an eval's or a task's own code: what was trained is kept
            traceback.print_exc()
            reason = f"{type(error).__name__}: {error}"
            status = "oom" if ran_out(error) else "failed"
            yield _without_value(model, choice, status, reason, about)
        else:
            for score in scores:
                yield _measurement(model, choice, score, about)


def _measurement(
    model: "TextModel", choice: EvalChoice, score: EvalScore, about: Mapping[str, Any]
) -> Measurement:
    return Measurement(
        subject=model.name,
        metric=f"{PREFIX}{choice.label}.{score.name}",
        value=score.value,
        unit=score.unit,
        samples=list(score.samples),
        status="failed" if score.failure else "ok",
        reason=score.failure,
        level="model",
        source=score.source,
        data={
            **about,
            "standard_error": score.error,
            "why_no_error": score.why_no_error,
            "items": score.items,
            "digest": score.digest,
            "better": score.better,
            **score.details,
        },
    )


def _without_value(
    model: "TextModel", choice: EvalChoice, status: Any, reason: str, about: Mapping[str, Any]
) -> Measurement:
    return Measurement(
        subject=model.name, metric=f"{PREFIX}{choice.label}", value=None, unit="", status=status,
        reason=reason, level="model", data=dict(about),
    )  # fmt: skip
