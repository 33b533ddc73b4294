"""The right answer of a layer at some rows of its output and of the gradient of x.

Rows are held against a float64 reference. An error is counted in units of the row's largest value;
it may be twice the largest that the plain layer (gemma with core xla) has on the same rows in the
same dtype, and at least one unit in the last place. Weights' gradients are sums over all tokens:
they are held against what must follow from their being gradients, see `weights_agree`.
"""

from dataclasses import replace
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

import numpy as np

from assay.attention.budget import BASELINE_FACTOR, Allowance, ulp
from assay.models.layer import Layer
from assay.subjects.contract import Expected, Index, TensorComparison
from assay.subjects.layers import reference
from assay.subjects.layers.inputs import LayerInputs

SOURCE = "float64 reference of some rows; budget: see assay/subjects/layers/expected.py"
_ROWS = 16  # of a batch row whose gradient is looked at
_OTHER_ROWS = 2  # of any other
_MANY_SCORES = 1 << 28  # of a batch row; beyond it, one batch row must do
_SPOTS = 8
_AGREE = 0.05  # of the terms in quadrature; their rounding is a tenth of that


@lru_cache(maxsize=4)  # of a workload, and of its kinds of values
def expected(inputs: LayerInputs, device: str) -> Expected:
    """Right values from the reference, [n, D], and budgets from the plain layer, [n, 1].

    The output is looked at in every batch row, so that none can be left out; the gradient of x in
    one or two, for each row of it needs all queries.
    """
    spec = inputs.spec
    generator = np.random.default_rng((spec.seed, 3))
    many = spec.heads * spec.query_length * spec.key_length > _MANY_SCORES
    batch = _chosen(generator, spec.batch, 1 if many else 2, first=())
    places = [_chosen(generator, spec.query_length, _ROWS) for _ in batch]
    rows = [reference.rows(inputs, batch=b, places=p) for b, p in zip(batch, places, strict=True)]
    right = {
        "out": np.concatenate([row.out for row in rows]),
        "dx": np.concatenate([row.grad_x for row in rows]),
    }
    among_chosen = _index(np.arange(len(batch)), places)
    share = {
        name: BASELINE_FACTOR * _relative_error(_values(array, among_chosen), right[name])
        for name, array in _plain_layer(_some(inputs, batch), device).items()
    }
    index = dict.fromkeys(right, _index(batch, places))
    if len(others := np.setdiff1d(np.arange(spec.batch), batch)):
        few = [_chosen(generator, spec.query_length, _OTHER_ROWS, first=()) for _ in others]
        pairs = zip(others, few, strict=True)
        more = [reference.outputs(inputs, batch=b, places=p) for b, p in pairs]
        right["out"] = np.concatenate([right["out"], *more])
        both = zip(index["out"], _index(others, few), strict=True)
        index["out"] = tuple(np.concatenate(pair) for pair in both)
    allowed = {name: _allowance(right[name], share[name], spec.dtype) for name in right}
    result = SimpleNamespace(**right)
    return Expected(result=result, allowed=allowed, index=index, source=SOURCE)


def spots(inputs: LayerInputs, device: str) -> Expected:
    """A few of the rows of `expected`, with twice the budget: bits may change from call to call."""
    whole = expected(inputs, device)
    right, allowed, index = {}, {}, {}
    for name, places in whole.index.items():
        some = np.unique(np.linspace(0, len(places[0]) - 1, _SPOTS).round().astype(int))
        right[name] = getattr(whole.result, name)[some]
        largest = 2 * whole.allowed[name].largest[some]
        allowed[name] = replace(whole.allowed[name], largest=largest)
        index[name] = tuple(axis[some] for axis in places)
    return Expected(result=SimpleNamespace(**right), allowed=allowed, index=index)


def last_outputs(inputs: LayerInputs, device: str, count: int) -> Expected:
    """The last rows of the output of every batch row, with the budget of those in `expected`."""
    whole, length = expected(inputs, device), inputs.spec.query_length
    sizes = np.abs(whole.result.out).max(axis=-1, keepdims=True)
    share = float((whole.allowed["out"].largest / sizes).max())
    batch, places = np.arange(inputs.spec.batch), np.arange(length - count, length)
    right = np.concatenate([reference.outputs(inputs, batch=b, places=places) for b in batch])
    return Expected(
        result=SimpleNamespace(out=right),
        allowed={"out": _allowance(right, share, inputs.spec.dtype)},
        index={"out": _index(batch, [places] * len(batch))},
        source=SOURCE,
    )


def weights_agree(
    inputs: tuple[Any, ...], grad_out: Any, out: Any, gradients: tuple[Any, ...]
) -> TensorComparison:
    """Hold gradients of weights against those of out and x.

    Euler's theorem on homogeneous functions: the output is linear in its last weight W, so <dW, W>
    is <dout, out>; and x and the weights V before the heads enter as products of both, so <dV, V>
    is <dx, x>. A weight that gets no gradient, or half of it, breaks one of the two.
    """
    import jax

    grad_x, grad_into, grad_last = gradients
    x, into, last = inputs
    sides = jax.jit(lambda pairs: [_products(*pair) for pair in pairs])(
        [(grad_last, last), (grad_out, out), (grad_into, into), (grad_x, x)]
    )
    sums = [(float(value), float(size)) for value, size in sides]
    shares = [
        abs(a - b) / (_AGREE * (size_a + size_b)) if size_a + size_b else 0.0
        for (a, size_a), (b, size_b) in (sums[:2], sums[2:])
    ]
    worst = max(shares) if np.isfinite(shares).all() else None
    problem = None
    if worst is None or worst > 1:
        names = ("output projection", "weights before the heads")
        which = names[int(np.argmax(shares))] if worst else "weights"
        problem = f"the gradient of the {which} does not fit those of out and x"
    return TensorComparison(
        tensor="weights", share=worst, error=None, problem=problem, source=SOURCE
    )


def _plain_layer(inputs: LayerInputs, device: str) -> dict[str, Any]:
    """Output and gradient of x by gemma with core xla."""
    from assay.models.layers import gemma
    from assay.subjects.layers import bind_loaded, place

    plain = Layer(
        name="gemma:xla", core="xla", framework="jax", heads=(), init=gemma.init, apply=gemma.apply
    )
    out, gradients = bind_loaded(plain, inputs, place(inputs, device), device).gradients()
    return {"out": out, "dx": gradients[0]}


def _some(inputs: LayerInputs, batch: np.ndarray) -> LayerInputs:
    """The same layer on some rows of the batch."""
    spec = replace(inputs.spec, batch=len(batch))
    return replace(inputs, spec=spec, x=inputs.x[batch], grad_out=inputs.grad_out[batch])


def _allowance(right: np.ndarray, share: float, dtype: str) -> Allowance:
    """[n, 1] for each row; the mean is not judged."""
    size = np.abs(right).max(axis=-1, keepdims=True)
    return Allowance(largest=np.maximum(share * size, ulp(size, dtype)), mean=np.inf)


def _values(array: Any, index: Index) -> np.ndarray:
    return np.asarray(array[index]).astype(np.float64)


def _relative_error(values: np.ndarray, right: np.ndarray) -> float:
    """The largest error, in units of the largest value of its row."""
    return float((np.abs(values - right).max(axis=-1) / np.abs(right).max(axis=-1)).max())


def _products(gradient: Any, value: Any) -> tuple[Any, Any]:
    """The sum of the products of two trees of arrays, and the root of the sum of their squares."""
    import jax
    import jax.numpy as jnp

    products = jax.tree.map(
        lambda a, b: a.astype(jnp.float32) * b.astype(jnp.float32), gradient, value
    )
    leaves = jax.tree.leaves(products)
    return sum(leaf.sum() for leaf in leaves), sum((leaf**2).sum() for leaf in leaves) ** 0.5


def _chosen(
    generator: np.random.Generator, total: int, count: int, first: tuple[int, ...] = (0,)
) -> np.ndarray:
    """Distinct numbers below `total`: the last, those that come `first`, and others at random."""
    others = generator.permutation(total).tolist()
    numbers = list(dict.fromkeys([total - 1, *first, *others]))[: min(count, total)]
    return np.sort(np.array(numbers))


def _index(batch: np.ndarray, places: list[np.ndarray]) -> Index:
    """Every batch row with each of its places."""
    return np.repeat(batch, [len(some) for some in places]), np.concatenate(places)
