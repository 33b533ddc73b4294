"""Several devices: a sharded jit is captured whole, a shard_map shard by shard."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("jax")
pytest.importorskip("flax")

PROGRAM = """
import json, sys
from pathlib import Path
sys.path[:0] = [{tests!r}, {root!r}]
import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
from jax_models import Tiny, capture, inputs, loss, parameters, records, tensors

path = Path({path!r})
mesh = Mesh(np.array(jax.devices()), ("data",))
model = Tiny(depth=2, remat=True)
variables, x = parameters(model), inputs(batch=4)
step = jax.jit(jax.grad(loss(model)))

with capture(model, path / "sharded"):
    step(variables, jax.device_put(x, NamedSharding(mesh, P("data"))))
whole = [np.array_equal(tensors(path / "sharded", f"layer={{n}}")["x"], x * 2) for n in (0,)]

mapped = jax.shard_map(
    lambda v, x: jax.lax.pmean(jax.grad(loss(model))(v, x), "data"),
    mesh=mesh, in_specs=(P(), P("data")), out_specs=P(), check_vma=False,
)
with capture(model, path / "mapped") as flax_capture:
    for _ in range(2):
        jax.jit(mapped)(variables, x)
    _, calls = jax.jit(flax_capture.collect(model.apply))(
        variables, jax.device_put(x, NamedSharding(mesh, P("data")))
    )
    flax_capture.save(calls, step=9)
shards = [
    np.array_equal(tensors(path / "mapped", f"step=0,layer=0,site=*@shard{{n}}")["x"][0], x[n] * 2)
    for n in range(4)
]
def calls_of(name):
    return [(r.key.step, r.key.layer, r.key.site, r.key.call) for r in records(path / name)]
collected = np.array_equal(tensors(path / "mapped", "step=9,layer=0")["x"], x * 2)
print(json.dumps(dict(devices=len(jax.devices()), sharded=calls_of("sharded"), whole=whole,
                      mapped=calls_of("mapped"), shards=shards, collected=bool(collected))))
"""


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    here = Path(__file__).parent
    program = PROGRAM.format(
        tests=str(here), root=str(here.parent.parent), path=str(tmp_path_factory.mktemp("four"))
    )
    flags = "--xla_force_host_platform_device_count=4 --xla_backend_optimization_level=0"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def test_a_sharded_jit_is_one_record_with_the_whole_batch(report):
    assert report["devices"] == 4
    assert report["sharded"] == [[0, layer, "layers.attn", 0] for layer in range(2)]
    assert report["whole"] == [True]


def test_each_shard_of_a_shard_map_is_a_site(report):
    mapped = [
        [step, layer, f"layers.attn@shard{shard}", 0]
        for step in range(2)
        for layer in range(2)
        for shard in range(4)
    ]
    assert report["mapped"][: len(mapped)] == mapped
    assert report["shards"] == [True] * 4


def test_results_of_a_sharded_jit_are_saved_whole(report):
    assert report["mapped"][-2:] == [[9, layer, "layers.attn", 0] for layer in range(2)]
    assert report["collected"]
