"""JAX: values of its configuration that change what others compute, or how fast."""

from functools import cache, partial

import jax

from assay.instruments.shared_state import Setting

_NAMES = (
    "jax_check_tracer_leaks",
    "jax_cpu_enable_async_dispatch",
    "jax_debug_infs",
    "jax_debug_nans",
    "jax_default_device",
    "jax_default_matmul_precision",
    "jax_default_prng_impl",
    "jax_disable_jit",
    "jax_disable_most_optimizations",
    "jax_enable_checks",
    "jax_enable_x64",
    "jax_numpy_dtype_promotion",
    "jax_numpy_rank_promotion",
    "jax_threefry_partitionable",
    "jax_transfer_guard",
)


@cache
def settings() -> tuple[Setting, ...]:
    """Those that this version has; JAX keeps no random numbers of its own."""
    return tuple(
        Setting(
            name=name,
            read=partial(getattr, jax.config, name),
            write=partial(jax.config.update, name),
        )
        for name in _NAMES
        if hasattr(jax.config, name)
    )
