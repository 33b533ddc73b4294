"""Float32 means float32 in these tests, on a GPU too; tables of tokens are short; no thresholds."""

import pytest


@pytest.fixture(autouse=True)
def exact_products():
    import jax

    with jax.default_matmul_precision("highest"):
        yield


@pytest.fixture(autouse=True)
def short_table(monkeypatch):
    from gemma_cases import VOCABULARY

    monkeypatch.setattr("assay.models.gemma.model.PALIGEMMA_VOCAB_SIZE", VOCABULARY)


@pytest.fixture(autouse=True)
def no_thresholds(monkeypatch):
    """Keep measurements of the machine that tests run on from choosing their cores."""
    monkeypatch.setenv("ASSAY_THRESHOLDS", "")
