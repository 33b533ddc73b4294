"""Names of others for our settings."""

import pytest

from assay.trackers.aliases import read_config
from assay.trackers.run import TrackerRun


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
