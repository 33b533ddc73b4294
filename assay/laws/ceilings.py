"""What the machine of a run reached at best, and which dtypes that holds for."""

from collections.abc import Sequence
from dataclasses import dataclass

from assay.records.schema import Record

HOST_STAGE = "host"
MATMUL, READ = "matmul_rate", "read_bandwidth"
_SCALES = {MATMUL: 1e12, READ: 1e9}
# A matmul ceiling is measured in the dtype that the device is mostly used with.
_MATMUL_DTYPES = {"cpu": ("float32",), "cuda": ("bfloat16", "float16")}


@dataclass(frozen=True, kw_only=True)
class Known:
    """A value, or the reason why there is none."""

    value: float | None
    reason: str | None = None


class Ceilings:
    """The measured ceilings among some records, by run and host."""

    def __init__(self, records: Sequence[Record]) -> None:
        self._found: dict[tuple[str, str, str], list[Record]] = {}
        for record in records:
            if record.stage == HOST_STAGE and record.metric in _SCALES:
                key = (record.run, record.host, record.metric)
                self._found.setdefault(key, []).append(record)

    def compute(self, of: Record, *, dtype: str) -> Known:
        """FLOP per second that the device of a record's run reached in matrix products."""
        best = self._best(of, MATMUL)
        if isinstance(best, str):
            return Known(value=None, reason=best)
        kind = best.subject.partition(":")[0]
        held_for = _MATMUL_DTYPES.get(kind, ())
        if dtype not in held_for:
            names = " and ".join(held_for) or "no dtype that is known"
            return Known(
                value=None,
                reason=f"the {MATMUL} of {best.subject} holds for {names}, not for {dtype}",
            )
        return Known(value=best.value * _SCALES[MATMUL])

    def reading(self, of: Record) -> Known:
        """Bytes per second that the device of a record's run reached in reading."""
        best = self._best(of, READ)
        if isinstance(best, str):
            return Known(value=None, reason=best)
        return Known(value=best.value * _SCALES[READ])

    def _best(self, of: Record, metric: str) -> Record | str:
        """The highest record of a ceiling, or why there is none that surely applies."""
        found = self._found.get((of.run, of.host, metric), [])
        measured = [record for record in found if record.status == "ok" and record.value]
        if not measured:
            told = next((record.reason for record in found if record.reason), None)
            return f"no {metric} of this machine: {told or 'add host to STAGES'}"
        if len({record.subject for record in measured}) > 1:
            names = ", ".join(sorted({record.subject for record in measured}))
            return f"the run has a {metric} of several devices ({names}) and names none of them"
        return max(measured, key=lambda record: record.value)
