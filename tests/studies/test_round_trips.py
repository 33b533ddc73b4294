"""A study written down, in full or only where it differs from the defaults, loads as itself."""

import kconfiglib
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from assay.studies import kconfig


def in_a_grid(elements):
    return st.lists(elements, min_size=1, max_size=3, unique=True).map(",".join)


numbers = st.integers(1, 9999).map(str)
some_sets = st.fixed_dictionaries(
    {},
    optional={
        "STUDY": st.from_regex(r"[a-z][a-z0-9._-]{0,8}", fullmatch=True),
        "SEED": st.integers(0, 2147483647).map(str),
        "WORKLOADS": st.text(' "\\#=/é-', min_size=1).map(str.strip),
        "BATCHES": in_a_grid(numbers),
        "HEADS": in_a_grid(st.integers(1, 9).map(lambda kv: f"{4 * kv}/{kv}")),
        "LENGTHS": in_a_grid(st.tuples(numbers, numbers).map("/".join)),
        "DTYPES": in_a_grid(st.sampled_from(["float32", "float16", "bfloat16"])),
        "ROUNDS": st.integers(3, 100000).map(str),
    },
)
devices = st.sampled_from([[], ["DEVICE_CPU=y"], ["DEVICE_CUDA=y"]]) | st.integers(0, 63).map(
    lambda index: ["DEVICE_CUDA=y", f"DEVICE_INDEX={index}"]
)
few = settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@few
@given(some_sets, devices)
def test_round_trips(tmp_path, sets, device):
    """A full file, Kconfiglib's own file and both minimal files all give the study back."""
    study = kconfig.load(None, [f"{name}={value}" for name, value in sets.items()] + device)
    full, theirs, least = tmp_path / "full", tmp_path / "theirs", tmp_path / "least"
    kconfig.write_config(study.config, full)
    assert kconfig.load(full) == study

    library = kconfiglib.Kconfig(str(kconfig.KCONFIG), warn_to_stderr=False)
    library.load_config(str(full))
    library.write_config(str(theirs))
    assert kconfig.load(theirs) == study

    least.write_text(kconfig.minimal(study))
    assert kconfig.load(least) == study
    library.write_min_config(str(theirs))
    assert [line for line in theirs.read_text().splitlines() if line] == (
        least.read_text().splitlines()
    )


def test_the_defaults_are_minimal_as_nothing():
    assert kconfig.minimal(kconfig.load(None)) == ""


@pytest.mark.parametrize("name", kconfig.defconfigs())
def test_every_defconfig_loads_and_is_minimal(name):
    path = kconfig.defconfig(name)
    study = kconfig.load(path)
    lines = path.read_text().splitlines()
    wanted = [line for line in lines if line.startswith("CONFIG_")]
    assert kconfig.minimal(study).splitlines() == wanted
    assert study.study == name
