"""A task of lm-eval whose data is local, given as its YAML file, through the package itself.

A task's file may name Python functions beside it (`!function`), which lm-eval imports: it is code
of whoever wrote it, and is run because its path was given. Nothing is fetched from a network.
"""

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.errors import BadInput, CannotRunHere
from assay.train.eval_score import EvalScore
from assay.train.evals._questions import constant_choice

if TYPE_CHECKING:
    from assay.train.text_model import TextModel

REQUIRES = ("torch", "lm_eval", "datasets")
OPTIONS = {"limit": 0, "bootstrap": 1000}  # 0: all items; draws for errors that are no mean's
_OFFLINE = ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "HF_EVALUATE_OFFLINE", "TRANSFORMERS_OFFLINE")
_CHOICES = "multiple_choice"


def score(model: "TextModel", file: str, *, limit: int, bootstrap: int) -> Iterator[EvalScore]:
    """Yield every metric of every task that the file defines."""
    if limit < 0 or bootstrap < 1:
        raise BadInput(f"limit={limit}, bootstrap={bootstrap}; wanted at least 0 and 1")
    with offline():
        import lm_eval

        from assay.train.lm_eval_model import LmEvalModel

        tasks = _tasks(file)
        adapter = LmEvalModel(model)
        results = lm_eval.evaluate(
            adapter, tasks, limit=limit or None, bootstrap_iters=bootstrap, verbosity="ERROR"
        )
    about = {"lm_eval": lm_eval.__version__, "cut_requests": adapter.cut_requests}
    for name, task in tasks["tasks"].items():
        samples = sorted(results["samples"][name], key=lambda sample: sample["doc_id"])
        failure = _failure(task.OUTPUT_TYPE, samples)
        for metric in _metrics(results["results"][name]):
            yield _score(name, metric, results, samples, failure, about)


def _tasks(file: str) -> Any:
    from lm_eval.tasks import TaskManager

    try:
        return TaskManager(include_defaults=False).load(str(Path(file).resolve()))
    except (ConnectionError, OSError) as error:
        raise CannotRunHere(
            f"{file}: its data is not on this machine ({_line(error)}); evals read local data "
            "only: name local files, as dataset_path: json with data_files"
        ) from error
    except Exception as error:  # whatever a file, its functions or the package raise
        if "offline" in str(error).lower():
            raise CannotRunHere(f"{file}: {_line(error)}; evals read local data only") from error
        raise BadInput(f"{file} is no task that lm-eval can read: {_line(error)}") from error


def _metrics(values: Mapping[str, Any]) -> Iterator[str]:
    """Keys `metric,filter` of results; errors, names and counts stand among them."""
    for key, value in values.items():
        metric, comma, _ = key.partition(",")
        if comma and not metric.endswith("_stderr") and isinstance(value, int | float):
            yield key


def _score(
    task: str,
    key: str,
    results: Mapping[str, Any],
    samples: Sequence[Mapping[str, Any]],
    failure: str | None,
    about: Mapping[str, Any],
) -> EvalScore:
    metric, _, chosen = key.partition(",")
    own = [each for each in samples if each.get("filter", chosen) == chosen]
    value = results["results"][task][key]
    if not failure and not _is_number(value):
        failure = f"lm-eval gives {value} for {key}"
    error = results["results"][task].get(f"{metric}_stderr,{chosen}")
    known = _is_number(error) and not failure
    raw = [each.get(metric) for each in own]
    higher = results.get("higher_is_better", {}).get(task, {}).get(metric)
    return EvalScore(
        name=f"{task}.{metric}" + ("" if chosen == "none" else f".{chosen}"),
        value=None if failure else float(value),
        unit="1",
        error=float(error) if known else None,
        why_no_error=None if known else failure or "lm-eval gives none for this metric",
        samples=[float(v) for v in raw] if all(map(_is_number, raw)) else (),
        items=len(own),
        digest=_digest(own),
        better=None if higher is None else "higher" if higher else "lower",
        source=f"lm-eval {about['lm_eval']}, task {task}",
        failure=failure,
        details=dict(about),
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and isfinite(value)


def _failure(kind: str, samples: Sequence[Mapping[str, Any]]) -> str | None:
    """The reason why likelihoods of answers are none, for tasks that choose between them."""
    if kind != _CHOICES or not samples:
        return None
    likelihoods = [[float(pair[0]) for pair in each["filtered_resps"]] for each in samples]
    choices = [max(range(len(each)), key=each.__getitem__) for each in likelihoods]
    return constant_choice(choices, likelihoods, [str(each["target"]) for each in samples])


def _digest(samples: Sequence[Mapping[str, Any]]) -> str:
    """Of the items as they were put to the model: documents, prompts, targets."""
    parts = [f"{s['doc_hash']} {s['prompt_hash']} {s['target_hash']}" for s in samples]
    return f"sha256:{hashlib.sha256(chr(10).join(parts).encode()).hexdigest()}"


@contextmanager
def offline() -> Iterator[None]:
    """Keep the packages off every network, those that are imported already too."""
    import datasets
    import huggingface_hub.constants as hub

    before = {name: os.environ.get(name) for name in (*_OFFLINE, "DISABLE_MULTIPROC")}
    places = [(hub, "HF_HUB_OFFLINE"), (datasets.config, "HF_HUB_OFFLINE")]
    places += [(datasets.config, "HF_DATASETS_OFFLINE")]
    kept = [(place, name, getattr(place, name)) for place, name in places if hasattr(place, name)]
    os.environ.update(dict.fromkeys(before, "1"))
    for place, name, _ in kept:
        setattr(place, name, True)
    try:
        yield
    finally:
        for place, name, value in kept:
            setattr(place, name, value)
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def _line(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".strip().partition("\n")[0]
