"""Checks of what a Gemma module is called with; shapes that cannot work are refused."""

from collections.abc import Sequence

import jax


class InvalidInput(ValueError, AssertionError):
    """The call cannot work; the message says what was given, what is wanted and what to do.

    It is an AssertionError as well, because the modules these replace assert some of the same
    things: callers that catch either keep working.
    """


def require_width(x: jax.Array, width: int) -> None:
    """Refuse an input whose last axis is not the model width."""
    if x.ndim != 3 or x.shape[-1] != width:
        raise InvalidInput(
            f"the input has shape {x.shape}, wanted [batch, length, {width}]; "
            "give the width the module was built with"
        )


def require_positions(positions: jax.Array, *, batch: int, length: int) -> None:
    """Refuse positions that do not name one place for each token."""
    if positions.ndim != 2 or positions.shape[0] not in (1, batch) or positions.shape[1] != length:
        raise InvalidInput(
            f"positions have shape {positions.shape}, wanted [{batch} or 1, {length}]; "
            "give one position for every token of the input"
        )


def require_mask(mask: jax.Array, *, wanted: Sequence[int]) -> None:
    """Refuse a mask that is not [batch, 1, queries, keys]."""
    if tuple(mask.shape) != tuple(wanted):
        raise InvalidInput(
            f"the attention mask has shape {tuple(mask.shape)}, wanted {tuple(wanted)}: "
            "[batch, 1, queries, keys], where keys counts the cache and the new tokens; "
            "build the mask for the cache that is passed"
        )


def require_groups(heads: int, kv_heads: int) -> None:
    """Refuse head counts that cannot be grouped."""
    if heads % kv_heads:
        raise InvalidInput(
            f"{heads} query heads cannot share {kv_heads} kv heads evenly; "
            "give a number of query heads that is a multiple of the kv heads"
        )
