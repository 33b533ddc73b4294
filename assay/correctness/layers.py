"""Whether a layer is right, from some rows of its output and of the gradient of x.

Rows are held against a float64 reference. An error is counted in units of the row's largest value;
it may be twice the largest that the plain layer (gemma with core xla) has on the same rows in the
same dtype, and at least one unit in the last place. Weights' gradients are sums over all tokens:
they are held against what must follow from their being gradients, see `weights_agree`.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from assay.attention.budget import BASELINE_FACTOR, ulp
from assay.correctness.judge import Comparison
from assay.models.layer import Layer
from assay.subjects import layer_reference
from assay.subjects.layer import LayerCall, bind, place
from assay.subjects.layer_inputs import LayerInputs
from assay.subjects.outcome import WrongAnswer

SOURCE = "float64 reference of some rows; twice the error of gemma:xla: assay/correctness/layers.py"
_ROWS = 16  # of a batch row whose gradient is looked at
_OTHER_ROWS = 2  # of any other
_MANY_SCORES = 1 << 28  # of a batch row; beyond it, one batch row must do
_TIMED_ROWS = 8
_GIVEN_BACK = {"out": "out", "dq": "dx"}  # what a timed probe calls it, and what it is here
_AGREE = 0.05  # of the terms in quadrature; their rounding is a tenth of that


Index = tuple[np.ndarray, np.ndarray]  # batch row and place, [n] each


@dataclass(frozen=True, kw_only=True)
class Expected:
    """Of out and dx, what is right at some places, [n, D], and how far off is still right, [n, 1];
    `index` is where they are."""

    right: dict[str, np.ndarray]
    allowed: dict[str, np.ndarray]
    index: dict[str, Index]


def expected(inputs: LayerInputs, device: str) -> Expected:
    """From the reference, and from the plain layer on the batch rows whose gradient is looked at.

    The output is looked at in every batch row, so that none can be left out.
    """
    spec = inputs.spec
    generator = np.random.default_rng((spec.seed, 3))
    many = spec.heads * spec.query_length * spec.key_length > _MANY_SCORES
    batch = _chosen(generator, spec.batch, 1 if many else 2, first=())
    places = [_chosen(generator, spec.query_length, _ROWS) for _ in batch]
    found = [
        layer_reference.rows(inputs, batch=b, places=p) for b, p in zip(batch, places, strict=True)
    ]
    right = {
        "out": np.concatenate([one.out for one in found]),
        "dx": np.concatenate([one.grad_x for one in found]),
    }
    number = _index(np.arange(len(batch)), places)
    share = {
        name: BASELINE_FACTOR * _relative_error(_numpy(array, number), right[name])
        for name, array in _plain(_some(inputs, batch), device).items()
    }
    index = dict.fromkeys(right, _index(batch, places))
    if len(others := np.setdiff1d(np.arange(spec.batch), batch)):
        few = [_chosen(generator, spec.query_length, _OTHER_ROWS, first=()) for _ in others]
        pairs = zip(others, few, strict=True)
        more = [layer_reference.outputs(inputs, batch=b, places=p) for b, p in pairs]
        right["out"] = np.concatenate([right["out"], *more])
        both = zip(index["out"], _index(others, few), strict=True)
        index["out"] = tuple(np.concatenate(pair) for pair in both)
    allowed = {}
    for name, values in right.items():
        size = np.abs(values).max(axis=-1, keepdims=True)
        allowed[name] = np.maximum(share[name] * size, ulp(size, spec.dtype))
    return Expected(right=right, allowed=allowed, index=index)


def compare(tensor: str, array: Any, wanted: Expected, call: LayerCall) -> Comparison:
    """One of out and dx against what was expected."""
    if problem := _wrong_form(tensor, array, call):
        return Comparison(tensor=tensor, share=None, error=None, problem=problem)
    index = wanted.index[tensor]
    values = _numpy(array, index)
    if not np.isfinite(values).all():
        problem = f"{tensor} is not finite"
        return Comparison(tensor=tensor, share=None, error=None, problem=problem)
    errors = np.abs(values - wanted.right[tensor])
    shares = errors / wanted.allowed[tensor]
    worst = float(shares.max())
    problem = None
    if worst > 1:
        at, column = (int(i) for i in np.unravel_index(shares.argmax(), shares.shape))
        place = (int(index[0][at]), int(index[1][at]), column)
        problem = (
            f"{tensor} at {place} is {values[at, column]:.6g}, wanted "
            f"{wanted.right[tensor][at, column]:.6g}: {worst:.3g} times what the plain layer's "
            "rounding explains"
        )
    return Comparison(tensor=tensor, share=worst, error=float(errors.max()), problem=problem)


def weights_agree(call: LayerCall, out: Any, gradients: tuple[Any, ...]) -> Comparison:
    """Euler's theorem on homogeneous functions: the output is linear in its last weight W, so
    <dW, W> is <dout, out>; and x and the weights V before the heads enter as products of both, so
    <dV, V> is <dx, x>. A weight that gets no gradient, or half of it, breaks one of the two."""
    import jax

    grad_x, grad_into, grad_last = gradients
    x, into, last = call.inputs
    sides = jax.jit(lambda pairs: [_products(*pair) for pair in pairs])(
        [(grad_last, last), (call.grad_out, out), (grad_into, into), (grad_x, x)]
    )
    found = [(float(value), float(size)) for value, size in sides]
    shares = [
        abs(a - b) / (_AGREE * (size_a + size_b)) if size_a + size_b else 0.0
        for (a, size_a), (b, size_b) in (found[:2], found[2:])
    ]
    worst = max(shares) if np.isfinite(shares).all() else None
    problem = None
    if worst is None or worst > 1:
        names = ("output projection", "weights before the heads")
        which = names[int(np.argmax(shares))] if worst else "weights"
        problem = f"the gradient of the {which} does not fit those of out and x"
    return Comparison(tensor="weights", share=worst, error=None, problem=problem)


class LayerAnswers:
    """What a cell's timed calls must give, on few rows (assay/performance/answers.py)."""

    def __init__(self, wanted: Expected) -> None:
        some = {name: _spread(len(values)) for name, values in wanted.right.items()}
        self._wanted = Expected(
            right={name: wanted.right[name][few] for name, few in some.items()},
            # From call to call bits may change, so what has just passed is given as much again.
            allowed={name: 2 * wanted.allowed[name][few] for name, few in some.items()},
            index={name: tuple(i[few] for i in wanted.index[name]) for name, few in some.items()},
        )

    def hold(self, call: LayerCall, arrays: dict[str, Any], factor: float) -> None:
        """Raise WrongAnswer unless each of the arrays that can be judged is right."""
        times = Expected(
            right={name: factor * values for name, values in self._wanted.right.items()},
            allowed={name: abs(factor) * values for name, values in self._wanted.allowed.items()},
            index=self._wanted.index,
        )
        for given, tensor in _GIVEN_BACK.items():
            if given in arrays and not compare(tensor, arrays[given], times, call).holds:
                raise WrongAnswer(
                    f"a timed call gave a wrong {tensor}, though an untimed one was right: its "
                    "answer was made beforehand, or it was not finished when the clock stopped"
                )


def _plain(inputs: LayerInputs, device: str) -> dict[str, Any]:
    """Output and gradient of x by the plain layer."""
    from assay.models.layers import gemma

    plain = Layer(
        name="gemma:xla",
        core="xla",
        framework="jax",
        heads=(),
        init=gemma.init,
        apply=gemma.apply,
    )
    out, gradients = bind(plain, inputs, place(inputs, device), device).training_program()()
    return {"out": out, "dx": gradients[0]}


def _some(inputs: LayerInputs, batch: np.ndarray) -> LayerInputs:
    """The same layer on some of the batch."""
    spec = replace(inputs.spec, batch=len(batch))
    return replace(inputs, spec=spec, x=inputs.x[batch], grad_out=inputs.grad_out[batch])


def _wrong_form(tensor: str, array: Any, call: LayerCall) -> str | None:
    """What is wrong before any value is looked at: out and dx look like x."""
    like = call.inputs[0]
    if not call.framework.is_array(array):
        return f"{tensor} is a {type(array).__name__}, wanted an array of JAX"
    if array.shape != like.shape:
        return f"{tensor} has shape {tuple(array.shape)}, wanted {tuple(like.shape)}"
    if array.dtype != like.dtype:
        return f"{tensor} has dtype {array.dtype}, wanted {like.dtype}"
    return None


def _numpy(array: Any, index: Index) -> np.ndarray:
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
    found = list(dict.fromkeys([total - 1, *first, *others]))[: min(count, total)]
    return np.sort(np.array(found))


def _index(batch: np.ndarray, places: list[np.ndarray]) -> Index:
    """Every batch row with each of its places."""
    return np.repeat(batch, [len(some) for some in places]), np.concatenate(places)


def _spread(count: int) -> np.ndarray:
    """Some of `count` numbers, from the first to the last."""
    return np.unique(np.linspace(0, count - 1, _TIMED_ROWS).round().astype(int))
