"""The process of a cell, as far as it can be looked at from within."""

import msgspec
import pytest

pytest.importorskip("torch")
import torch
from bound_calls import DEFAULTS, written

from assay.errors import BadInput
from assay.records.schema import SHARED_STATE, Measurement
from assay.studies import worker
from assay.studies.cell import Batch, Cell, WorkerRequest, encode, options_of
from assay.studies.signed_lines import contents, new_key
from assay.studies.stages.suite import SuiteSettings

SUITE = SuiteSettings(
    seed=0, dtypes=("float32",), cases=1, budget_s=1, quick=True, find_limits=False,
    workloads=(DEFAULTS,),
)  # fmt: skip


def lines(folder, stage, *subjects, **fields):
    """Items that a worker writes about subjects of a folder."""
    cell = Cell(name="c", subjects=subjects, probes=("accuracy",), **fields)
    request, result = folder / "request.json", folder / "result.jsonl"
    request.write_bytes(encode(WorkerRequest(stage=stage, cell=cell)))
    key = new_key(folder)
    worker.main(str(request), str(result))
    return [msgspec.json.decode(line) for line in contents(result.read_bytes(), key)]


@pytest.mark.parametrize(
    ("stage", "fields"),
    [("check", {"workload": DEFAULTS}), ("suite", {"options": options_of(SUITE)})],
)
def test_what_a_subject_changes_for_all_is_put_back_and_remarked_upon(tmp_path, stage, fields):
    body = "return eager.attention(q, k, v, causal=causal, scale=scale)"
    path = written(tmp_path, "hostile", body, head="torch.set_default_dtype(torch.float64)")
    items = lines(tmp_path, stage, str(path), **fields)
    assert torch.get_default_dtype() == torch.float32
    assert items[-1] == {"end": True}
    (remark,) = [item for item in items if item.get("metric") == SHARED_STATE]
    assert remark["reason"].startswith("set torch's default dtype from torch.float32 to torch.flo")
    assert not [item for item in items if "status" in item], "it is right all the same"


def test_a_batch_may_hold_dicts_as_probes_return_them():
    batch = Batch(1, None, [{"metric": "loss", "value": 2.5, "unit": "nats"}])
    assert batch.measurements == (Measurement(metric="loss", value=2.5, unit="nats"),)
    assert Batch(1, None).measurements == ()
    with pytest.raises(BadInput, match="required field `value`"):
        Batch(1, None, [{"metric": "loss", "unit": "nats"}])
