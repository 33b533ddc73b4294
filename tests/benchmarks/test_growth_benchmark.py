"""The benchmark of growth runs, and verbs that read a run stay linear in its cells."""

from dataclasses import replace

import pytest

from assay import plugins
from assay.host import CHECKOUT
from assay.studies import kconfig

BENCHMARKS = CHECKOUT / "benchmarks"


@pytest.mark.slow
def test_verbs_grow_no_faster_than_the_run(tmp_path):
    pytest.importorskip("duckdb")
    study = kconfig.load(None, ["STAGES=growth"], [BENCHMARKS])
    stage = plugins.load(plugins.find("stages", "growth", study.plugin_folders))
    (cell,) = stage.cells(study)
    verbs = ("plan", "status", "query")  # the others build a page, which takes many seconds
    sizes = {
        "verbs": verbs,
        "cells": [[80, 800], [800, 8_000]],
        "records": [[80, 800], [80, 8_000]],
    }
    small = replace(cell, options={"sizes": sizes, "scratch": str(tmp_path)})
    measured = {(m.metric, m.subject): m.value for m in stage.run(small)}
    for grown in ("cells", "records"):
        for verb in verbs:
            assert measured[f"exponent_{grown}", verb] < 1.1, (grown, verb)
    assert not list(tmp_path.iterdir()), "what was made is left behind"
