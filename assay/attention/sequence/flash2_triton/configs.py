"""Configurations of the kernels: tile sizes, warps and pipeline stages, and the choice of one.

The choice is a table by dtype and head dimension, not a measurement: autotuning may choose another
configuration in the next process, and then sums are rounded in another order. A configuration that
does not fit a target (shared memory, registers, or code too long to compile) is refused by name,
and never chosen.
"""

from dataclasses import dataclass

# Accumulators may take this many of the 255 registers of a thread; more would spill.
_ACCUMULATOR_REGISTERS = 224
# In float32 a product is unrolled into this many multiplications per thread at most. Twice as many
# compile for a minute and spill.
_UNROLLED_PRODUCTS = 512


@dataclass(frozen=True, kw_only=True)
class Target:
    """A device to compile for: `backend` is cuda or hip, as Triton calls them, or interpreter."""

    name: str
    backend: str
    shared_bytes: int
    warp_threads: int = 32


TARGETS = {
    "sm_90": Target(name="sm_90", backend="cuda", shared_bytes=232448),
    "sm_80": Target(name="sm_80", backend="cuda", shared_bytes=166912),
    "gfx942": Target(name="gfx942", backend="hip", shared_bytes=65536, warp_threads=64),
    "gfx1100": Target(name="gfx1100", backend="hip", shared_bytes=65536),
}
INTERPRETER = Target(name="the interpreter", backend="interpreter", shared_bytes=0)


@dataclass(frozen=True, kw_only=True)
class KernelConfig:
    """Tiles of `block_m` queries and `block_n` keys for one kernel."""

    kernel: str
    block_m: int
    block_n: int
    warps: int
    stages: int

    @property
    def name(self) -> str:
        return f"{self.kernel}_m{self.block_m}_n{self.block_n}_w{self.warps}_s{self.stages}"

    def misfit(self, *, bits: int, head_dim: int, target: Target) -> str | None:
        """The reason why it cannot serve such inputs on such a target; None if it can."""
        if target.backend == "interpreter":
            return None
        dims = padded_head_dim(head_dim)
        shared = self._shared_bytes(bits // 8, dims, target.backend)
        if shared > target.shared_bytes:
            return f"may need {shared} bytes of shared memory of {target.shared_bytes}"
        threads = self.warps * target.warp_threads
        registers = self._accumulators(dims) // threads
        if registers > _ACCUMULATOR_REGISTERS:
            return f"needs {registers} registers of each thread for its sums"
        products = self.block_m * self.block_n * dims // threads
        if bits == 32 and products > _UNROLLED_PRODUCTS:
            return f"unrolls {products} float32 multiplications, more than {_UNROLLED_PRODUCTS}"
        return None

    def _shared_bytes(self, element_bytes: int, dims: int, backend: str) -> int:
        """An upper bound: tiles that stay, tiles that move (one per stage), row sums."""
        two_sided = 1 if self.kernel == "forward" else 2
        stay, move = self.block_m, self.block_n
        if self.kernel == "dkdv":
            stay, move = move, stay
        row_sums = 2 * self.block_m * 4 if self.kernel == "dkdv" else 0
        moving = 2 * move * dims * element_bytes + row_sums
        if backend == "cuda":
            return two_sided * stay * dims * element_bytes + self.stages * moving
        # AMD keeps what stays in registers, buffers one stage less and may exchange the weights.
        weights = self.block_m * self.block_n * element_bytes
        return max(self.stages - 1, 1) * moving + weights

    def _accumulators(self, dims: int) -> int:
        """Number of float32 sums that a program holds: scores and outputs."""
        scores = self.block_m * self.block_n
        if self.kernel == "forward":
            return self.block_m * dims + scores
        if self.kernel == "dq":
            return self.block_m * dims + 2 * scores
        return 2 * self.block_n * dims + 2 * scores


def _by_name(kernel: str, *settings: tuple[int, int, int, int]) -> dict[str, KernelConfig]:
    configs = (
        KernelConfig(kernel=kernel, block_m=m, block_n=n, warps=warps, stages=stages)
        for m, n, warps, stages in settings
    )
    return {config.name: config for config in configs}


# block_m, block_n, warps, stages: at most eight for each kernel.
BY_KERNEL: dict[str, dict[str, KernelConfig]] = {
    "forward": _by_name(
        "forward",
        (128, 128, 8, 3), (128, 128, 8, 2), (128, 64, 8, 2), (128, 64, 4, 3),
        (64, 64, 4, 3), (64, 32, 4, 2), (32, 32, 8, 2), (32, 16, 8, 2),
    ),
    "dkdv": _by_name(
        "dkdv",
        (64, 128, 8, 3), (64, 128, 8, 2), (32, 128, 8, 3), (64, 64, 8, 2),
        (64, 64, 4, 3), (32, 64, 8, 2), (32, 32, 8, 2), (16, 32, 8, 2),
    ),
    "dq": _by_name(
        "dq",
        (128, 64, 8, 3), (128, 64, 8, 2), (128, 32, 8, 2), (64, 64, 8, 2),
        (64, 64, 4, 3), (64, 32, 4, 2), (32, 32, 8, 2), (32, 16, 8, 2),
    ),
}  # fmt: skip
# The small kernel before the backward ones has no choice.
DELTA = KernelConfig(kernel="delta", block_m=64, block_n=1, warps=4, stages=1)
BY_NAME: dict[str, KernelConfig] = {
    name: config for configs in BY_KERNEL.values() for name, config in configs.items()
}

# Tried first, by kernel, bits and padded head dimension; then the others in their order above.
_FIRST_CHOICE = {
    ("forward", 16, 64): "forward_m128_n64_w4_s3",
    ("forward", 16, 256): "forward_m128_n64_w8_s2",
    ("dkdv", 16, 128): "dkdv_m64_n128_w8_s2",
    ("dkdv", 16, 256): "dkdv_m32_n64_w8_s2",
    ("dq", 16, 128): "dq_m128_n64_w8_s2",
    ("dq", 16, 256): "dq_m128_n32_w8_s2",
    ("forward", 32, 128): "forward_m32_n16_w8_s2",
    ("dkdv", 32, 128): "dkdv_m16_n32_w8_s2",
    ("dq", 32, 128): "dq_m32_n16_w8_s2",
}


def padded_head_dim(head_dim: int) -> int:
    """The head dimension of a tile: a power of two, and at least what a product takes."""
    return max(16, 1 << (head_dim - 1).bit_length())


def choose(
    kernel: str, *, bits: int, head_dim: int, target: Target, pinned: str | None = None
) -> KernelConfig:
    """The configuration of `kernel`: the pinned one if that is this kernel's, else the table's."""
    if pinned is not None and pinned not in BY_NAME:
        raise ValueError(
            f"flash2_triton has no configuration {pinned!r}; it has {', '.join(BY_NAME)}"
        )
    if pinned in BY_KERNEL[kernel]:
        misfit = BY_NAME[pinned].misfit(bits=bits, head_dim=head_dim, target=target)
        if misfit:
            raise ValueError(
                f"configuration {pinned} does not fit {bits}-bit inputs of head dimension "
                f"{head_dim} on {target.name}: it {misfit}; pin another, or none"
            )
        return BY_NAME[pinned]
    for config in _in_order(kernel, bits, head_dim):
        if config.misfit(bits=bits, head_dim=head_dim, target=target) is None:
            return config
    raise ValueError(
        f"no configuration of flash2_triton's {kernel} fits {bits}-bit inputs of head dimension "
        f"{head_dim} on {target.name}, which has {target.shared_bytes} bytes of shared memory"
    )


def _in_order(kernel: str, bits: int, head_dim: int) -> list[KernelConfig]:
    first = _FIRST_CHOICE.get((kernel, bits, padded_head_dim(head_dim)))
    return sorted(BY_KERNEL[kernel].values(), key=lambda config: config.name != first)
