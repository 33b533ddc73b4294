"""Names of others for our settings."""

import pytest

from assay.trackers.aliases import read_config
from assay.trackers.run import RunMetadata, TrackerRun


@pytest.mark.parametrize("value", [10**400, float("inf"), float("nan"), -3, 0, 2.5, "12", None])
def test_a_batch_that_nobody_counts_is_not_read(value):
    """Found by the campaign: an integer beyond a float gave a traceback."""
    run = TrackerRun(source="json", place="p", name="n", config={"batch_size": value})
    assert "TRAIN_BATCH" not in read_config(run).symbols


@pytest.mark.parametrize("value", [12, 12.0])
def test_a_batch_is_the_product_of_its_factors(value):
    config = {"batch_size": value, "gradient_accumulation_steps": 4}
    run = TrackerRun(source="json", place="p", name="n", config=config)
    assert read_config(run).symbols["TRAIN_BATCH"] == "48"


def read(config, **metadata):
    run = TrackerRun(
        source="json", place="p", name="n", config=config, metadata=RunMetadata(**metadata)
    )
    return read_config(run)


HUGGING_FACE = {"per_device_train_batch_size": 6, "gradient_accumulation_steps": 4}
LIGHTNING = {"batch_size": 6, "accumulate_grad_batches": 4}
TITAN = {"training.local_batch_size": 6, "parallelism.data_parallel_replicate_degree": 2}


@pytest.mark.parametrize(
    ("config", "batch"),
    [
        ({"batch_size": 8, "gradient_accumulation": 4}, "32"),
        ({"batch_size": 8}, None),
        (HUGGING_FACE, None),
        (HUGGING_FACE | {"world_size": 2}, "48"),
        (LIGHTNING | {"devices": 2, "num_nodes": 2}, "96"),
        (LIGHTNING | {"devices": "auto"}, None),
        (TITAN | {"training.global_batch_size": 256}, "256"),
        (TITAN | {"parallelism.data_parallel_shard_degree": 4}, "48"),
        (TITAN | {"parallelism.data_parallel_shard_degree": -1}, None),
    ],
)
def test_the_batch_of_a_step_is_read_as_its_program_means_it(config, batch):
    """A run that does not state its accumulation or its devices does not state its batch, and the
    GPUs of a machine are not those of a run."""
    assert read(config, gpu_name="H100", gpu_count=8).symbols.get("TRAIN_BATCH") == batch


@pytest.mark.parametrize(
    "config",
    [{"compile": 1}, {"torch_compile": "True"}, {"compile_model": True}, {"compile.enable": "y"},
     {"training.compile": True}],
)  # fmt: skip
def test_a_switch_is_a_switch_under_every_name(config):
    assert read(config).symbols == {"TRAIN_COMPILED": "y"}


def test_budget_of_time_devices_and_commit():
    assert read({"max_time": "00:12:30:00"}).symbols == {"TRAIN_MOST_SECONDS": "45000"}
    assert read({"max_time": "soon:0:0:0"}).rest == {"max_time": "soon:0:0:0"}
    assert read({"nproc_per_node": 4, "nnodes": 2}).devices == 8
    assert read({"git_commit": "abc"}).commit == "abc"
    assert read({"git_sha": "abc"}, commit="abcdef").commit == "abcdef"
    assert read({"git_commit": "abc"}, commit="def").commit is None
