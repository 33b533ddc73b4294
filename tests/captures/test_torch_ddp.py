"""Two processes that train together capture into one store."""

import subprocess
import sys
from pathlib import Path

import new_process
import torch
import torch_models as made

import assay
from assay.captures.store import Store

STEPS = 3


def test_two_ranks_share_a_store(tmp_path):
    meeting = tmp_path / "meeting"
    tests = new_process.ROOT / "tests"
    environment = new_process.environment(tests)
    processes = [
        subprocess.Popen(
            [sys.executable, __file__, str(rank), str(meeting), str(tmp_path / "store")],
            env=environment,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    for process in processes:
        _, errors = process.communicate(timeout=600)
        assert process.returncode == 0, errors
    store = Store.open(tmp_path / "store")
    manifest = store.manifest()
    assert sorted(run.rank for run in manifest.runs) == [0, 1]
    keys = [(r.key.rank, r.key.step, r.key.layer, r.key.site) for r in manifest.records]
    assert sorted(keys) == [
        (rank, step, layer, f"blocks.{layer}.attn")
        for rank in range(2)
        for step in range(STEPS)
        for layer in range(3)
    ]
    # Each has its own part of the batch.
    first = {r.key.rank: store.read(r)["x"].digest() for r in manifest.records[:: 3 * STEPS]}
    assert len(set(first.values())) == 2
    assert len({r.name for r in manifest.records}) == len(manifest.records)


def train(rank, meeting, store):
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{meeting}", rank=rank, world_size=2
    )
    torch.manual_seed(0)
    model = torch.nn.parallel.DistributedDataParallel(made.Plain())
    x = made.inputs(rows=2)[rank : rank + 1]
    with assay.capturing(model, store):
        for _ in range(STEPS):
            model(x).sum().backward()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    train(int(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]))
