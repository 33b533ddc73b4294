"""Slopes of hand-written functions: which are wrong, and which are other ones on purpose."""

import pytest

torch = pytest.importorskip("torch")

from assay.correctness.models.custom_functions import functions_in, wrong_slopes


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.save_for_backward(x)
        ctx.factor = factor
        return factor * x * x

    @staticmethod
    def backward(ctx, dy):
        return 2 * ctx.factor * ctx.saved_tensors[0] * dy, None


class HalfSquare(Square):
    @staticmethod
    def backward(ctx, dy):
        return ctx.factor * ctx.saved_tensors[0] * dy, None


class NoGradient(Square):
    @staticmethod
    def backward(ctx, dy):
        return None, None


class Reversed(Square):
    @staticmethod
    def forward(ctx, x, factor):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, dy):
        return -dy, None


class Rounded(Reversed):
    @staticmethod
    def forward(ctx, x, factor):
        return (x / factor).round() * factor


class InFloat32(HalfSquare):
    """Its differences are rounding: nothing can be said of its slope."""

    @staticmethod
    def forward(ctx, x, factor):
        ctx.save_for_backward(x)
        ctx.factor = factor
        return (factor * x.float() * x.float()).to(x.dtype)


def slopes(function: type) -> list:
    x = torch.linspace(-2, 3, 40, dtype=torch.float64).view(5, 8).requires_grad_()
    return list(wrong_slopes({function}, lambda: function.apply(x, 0.3)))


@pytest.mark.parametrize("function", [HalfSquare, NoGradient])
def test_a_wrong_slope_is_measured(function):
    (wrong,) = slopes(function)
    assert wrong.function == function.__name__ and wrong.argument == 0
    expected = 0.5 * wrong.measured if function is HalfSquare else 0.0
    assert wrong.given == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("function", [Square, Reversed, Rounded, InFloat32])
def test_a_right_slope_and_one_on_purpose_are_left_alone(function):
    assert not slopes(function)


def test_functions_of_torch_are_not_among_those_of_a_graph():
    x = torch.ones(3, requires_grad=True)
    y = torch.utils.checkpoint.checkpoint(lambda t: Square.apply(t, 2.0), x, use_reentrant=True)
    assert functions_in((y + Square.apply(x, 1.0)).sum()) == {Square}
