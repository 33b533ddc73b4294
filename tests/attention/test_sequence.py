"""Every implementation in the folder, held to the rules that every mechanism passes.

The rules are the probes of `assay check`; a new file is tested the day it is added. Here on
the CPU; on a GPU the same is `assay check all --device cuda`.
"""

import pytest

import assay
from assay import plugins

# Each case of these takes seconds to compile, so a few of them stand for all.
SLOW_TO_COMPILE = {"flex": {"probes": ["accuracy"], "cases": 4}}
# These have tests of their own, and are slow where every kernel is interpreted or compiled.
TESTED_ELSEWHERE = {"flash2_triton", "jax_pallas", "jax_xla", "flex"}


def marks(plugin: plugins.Plugin) -> list[pytest.MarkDecorator]:
    missing = pytest.mark.skipif(bool(plugin.missing), reason=f"needs {plugin.missing}")
    return [missing, *([pytest.mark.slow] if plugin.name in TESTED_ELSEWHERE else [])]


NAMES = [
    pytest.param(name, marks=marks(plugin)) for name, plugin in plugins.listing("sequence").items()
]


def held(name: str, **options) -> None:
    verdict = assay.check(name, **options)
    if not verdict.holding and not verdict.failures:
        pytest.skip(str(verdict))
    assert verdict, str(verdict)


@pytest.mark.parametrize("name", NAMES)
def test_a_quick_check_holds(name):
    held(name, quick=True, **SLOW_TO_COMPILE.get(name, {}))


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_check_holds(name):
    held(name, seed=1, **SLOW_TO_COMPILE.get(name, {}))
