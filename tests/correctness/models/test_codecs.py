"""Which modules of a model count as codecs, and what of them is destroyed."""

import pytest

torch = pytest.importorskip("torch")

from torch import nn

from assay.correctness.models.codecs import codecs, destroyed, watched


class KVSplice(nn.Module):
    """A pair of modules."""

    def __init__(self):
        super().__init__()
        self.compress, self.expand = nn.Linear(4, 2), nn.Linear(2, 4)

    def forward(self, x):
        return self.expand(self.compress(x))


class SpliceAttention(nn.Module):
    """Named for the codec that is within it."""

    def __init__(self):
        super().__init__()
        self.query, self.inner = nn.Linear(4, 4), KVSplice()

    def forward(self, x):
        return self.inner(self.query(x))


class SpliceMixer(nn.Module):
    """Named for a codec that nothing else tells from its other parts."""

    def __init__(self):
        super().__init__()
        self.query, self.down, self.up = nn.Linear(4, 4), nn.Linear(4, 2), nn.Linear(2, 4)
        self.drop = nn.Dropout(0.0)

    def forward(self, x):
        return self.up(self.down(self.query(x)))


class Attention(nn.Module):
    """A pair of methods beside other weights."""

    def __init__(self):
        super().__init__()
        self.query, self.down, self.up = nn.Linear(4, 4), nn.Linear(4, 2), nn.Linear(2, 4)

    def compress(self, x):
        return self.down(x)

    def expand(self, code):
        return self.up(code)

    def forward(self, x):
        return self.query(x) + self.expand(self.compress(x))


def paths(module: nn.Module) -> list[str]:
    return [codec.path for codec in codecs(nn.Sequential(module))]


def test_what_counts():
    assert paths(KVSplice()) == ["0.compress", "0.expand"]
    assert paths(SpliceAttention()) == ["0.inner.compress", "0.inner.expand"]
    assert paths(SpliceMixer()) == ["0", "0.query", "0.down", "0.up"]
    assert paths(Attention()) == ["0"]
    assert not paths(nn.Linear(4, 4))


def test_a_codec_that_layers_share_counts_once():
    shared = KVSplice()
    assert len(codecs(nn.Sequential(shared, shared))) == 2


def test_of_a_host_only_the_codec_is_destroyed():
    model, x = nn.Sequential(Attention()), torch.randn(3, 4)
    (codec,) = codecs(model)
    with watched(codec):
        before = model(x)
    assert codec.is_host
    with destroyed(codec):
        assert torch.equal(model(x), model[0].query(x))
    assert torch.equal(model(x), before)
