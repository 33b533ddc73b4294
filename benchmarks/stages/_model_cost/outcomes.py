"""What becomes of a subject that fails: a record with the reason, and the others go on."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from _model_cost.right import Wrong
from assay.records.schema import Measurement, Status


@contextmanager
def recorded(metric: str, subject: str, into: list[Measurement]) -> Iterator[None]:
    """Puts the outcome of a body that raises `into` a list."""
    try:
        yield
    except Exception as error:
        if isinstance(error, torch.OutOfMemoryError):
            torch.cuda.empty_cache()
        into.append(_outcome(metric, subject, error))


def _outcome(metric: str, subject: str, error: Exception) -> Measurement:
    status: Status = "oom" if isinstance(error, torch.OutOfMemoryError) else "failed"
    told = str(error) if isinstance(error, Wrong) else f"{type(error).__name__}: {error}"
    return Measurement(
        metric=metric,
        subject=subject,
        value=None,
        unit="ms",
        status=status,
        reason=told.strip().partition("\n")[0] or type(error).__name__,
    )
