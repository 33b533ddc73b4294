"""The registry of steps: what a name stands for, which are refused, the page made of it."""

import subprocess
import sys

import pytest

from assay.correctness.models import tiny
from assay.errors import BadInput
from assay.models.gpt2 import steps
from assay.models.gpt2.config import GPTConfig, RA_MLA_Config

BY_ID = {step.id: step for step in steps.STEPS}
RATIO = [step for step in steps.STEPS if step.family == "ratio"]


def test_the_historical_names_and_all_ratio_steps_are_there():
    named = "B RA RALEARN MLA RAMLA RAMLAKV RAMLAKVM MLAKV MLAKV2 MLAKV2M RANONE RAEARLY RAALL"
    assert set(named.split()) <= set(BY_ID)
    assert [step.id for step in RATIO] == [str(number) for number in range(19)]


def test_no_two_steps_share_a_name():
    names = [name for step in steps.STEPS for name in step.names]
    assert len(set(names)) == len(names)


def kind_of(step):
    return RA_MLA_Config if "MLA" in step.variant else GPTConfig


@pytest.mark.parametrize("step", steps.STEPS, ids=lambda step: step.id)
def test_the_options_of_a_step_are_options_of_its_configuration(step):
    assert kind_of(step)(**step.options)


def test_only_ratio_steps_with_the_flag_have_a_latent():
    """The historical patcher gave one to every step but 0 and 1."""
    assert [int(s.id) for s in RATIO if "MLA" in s.variant] == [8, 9, 10, 11, 12, 14, 15, 16]
    assert all(("d_latent" in s.options) == ("MLA" in s.variant) for s in RATIO)


def test_the_widths_of_the_ratio_steps_are_whole_and_multiples_of_64():
    """int(3.3333333333 * 768) is 2559."""
    widths = [step.options["mlp_width"] for step in RATIO]
    assert widths == [
        3072, 3072, 3840, 3264, 3072, 3072, 3840, 3072, 3072, 2560,
        2048, 2560, 2048, 3072, 2560, 2560, 2048, 3072, 3072,
    ]  # fmt: skip
    assert all(width % 64 == 0 for width in widths)


@pytest.mark.parametrize("name", ["MLAKV2", "0", "1", "10", "RATIO18", "RALATE"])
def test_an_exact_name_wins_over_a_suffix(name):
    step, warning = steps.find(name)
    assert name in step.names and not warning


@pytest.mark.parametrize(
    ("name", "id"), [("RAMLA0", "RAMLA"), ("B1", "B"), ("MLAKV21", "MLAKV2"), ("MLAKV1", "MLAKV")]
)
def test_a_legacy_suffix_is_taken_off_with_a_warning(name, id):
    step, warning = steps.find(name)
    assert step.id == id and name in warning and id in warning


@pytest.mark.parametrize("name", ["20", "180", "00", "RATIO20", "MLAKV22", "B01", "", "0 "])
def test_what_is_no_step_is_refused(name):
    """20 is not step 2 with a suffix: nobody would see what was built instead."""
    with pytest.raises(BadInput, match="there is no step"):
        steps.find(name)


def test_a_refusal_names_the_nearest_and_all():
    with pytest.raises(BadInput, match=r"did you mean .*MLAKV.*the steps are B, RA, RANONE"):
        steps.find("mlakv")


def test_the_pruned_step_is_the_baseline_with_half_of_its_weights():
    assert BY_ID["1"].options == {**BY_ID["0"].options, "sparsity": 0.5}


def test_the_page_is_what_the_registry_gives_now():
    assert steps.PAGE.read_text(encoding="utf-8") == steps.page()


def test_the_registry_needs_no_torch():
    code = (
        "import sys; sys.modules['torch'] = None; from assay.models.gpt2 import steps; "
        "from assay.correctness.models import tiny"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_scaling_keeps_apart_what_options_tell_apart():
    configs = {(step.variant, tiny.config(kind_of(step), step.options)) for step in RATIO}
    assert len(configs) == len(RATIO)


def test_scaling_is_in_proportion():
    scaled = tiny.scaled({"mlp_width": 3840, "d_latent": 128, "ct_mode": "max", "ra_window": 64})
    assert scaled == {"mlp_width": 40, "d_latent": 6, "ct_mode": "max", "ra_window": 5}
    assert tiny.scaled({"splice_layers": "last:4"}) == {"splice_layers": "last:1"}
    assert tiny.scaled({"ra_layers": (0, 6, 11)}) == {"ra_layers": (0, 2, 3)}
