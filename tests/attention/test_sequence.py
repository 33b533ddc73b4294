"""Every implementation in the folder, held to the rules that every mechanism passes.

The rules are the probes of `assay check`; a new file is tested the day it is added. Here on
the CPU; on a GPU the same is `assay check all --device cuda`.
"""

import pytest

import assay
from assay import plugins

# Compiled for every case, or interpreted: a quick check takes minutes, so `make test-full` alone
# has it, on a few cases. They have tests of their own.
FEW = {"probes": ["accuracy", "gradients", "causality"], "cases": 4}
SLOW = {
    "flash2_triton": FEW,
    "jax_pallas": FEW,
    "jax_xla": FEW,
    "flex": {"probes": ["accuracy"], "cases": 2},
}
DEFAULT_CASES = ("sdpa",)  # the peer of all others, which with as many take a minute each
NO_HURRY_S = 1500
LISTED = plugins.listing("sequence")


def named(name: str, *, slow: bool):
    missing = LISTED[name].missing
    marks = [pytest.mark.skipif(bool(missing), reason=f"needs {missing}")]
    return pytest.param(
        name, marks=[*marks, *([pytest.mark.slow, pytest.mark.early] if slow else [])]
    )


def held(name: str, **options) -> None:
    verdict = assay.check(name, budget_s=NO_HURRY_S, **options)
    if not verdict.holding and not verdict.failures:
        pytest.skip(str(verdict))
    assert verdict, str(verdict)


@pytest.mark.parametrize("name", [named(name, slow=name in SLOW) for name in LISTED])
def test_a_quick_check_holds(name):
    held(name, quick=True, **SLOW.get(name, {}))


@pytest.mark.parametrize("name", [named(name, slow=True) for name in LISTED if name not in SLOW])
def test_a_check_holds(name):
    held(name, seed=1, cases=None if name in DEFAULT_CASES else 36)
