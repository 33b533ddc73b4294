"""Float32 means float32 in these tests, on a GPU too, and the tables of tokens are short."""

import pytest


@pytest.fixture(autouse=True)
def exact_products():
    import jax

    with jax.default_matmul_precision("highest"):
        yield


@pytest.fixture(autouse=True)
def short_table(monkeypatch):
    from gemma_cases import VOCABULARY

    from assay.models import gemma

    monkeypatch.setattr(gemma, "PALIGEMMA_VOCAB_SIZE", VOCABULARY)
