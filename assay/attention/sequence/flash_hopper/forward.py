"""The forward kernel: a warp that loads and warpgroups that multiply, for Hopper GPUs.

The design is FlashAttention-3's (Shah et al. 2024, arXiv:2407.08608), written in Gluon. One warp
fetches tiles of queries, keys and values by TMA into shared memory; each of GROUPS warpgroups owns
64 queries. A pair of barriers guards every buffer: `full` is completed by what arrives, `empty` by
the warpgroups that have read it. A warpgroup issues the scores of a block of keys before the output
product of the block before, so that its softmax runs while the tensor cores work; with PING_PONG
the warpgroups also take turns at issuing. The first block of a tile is issued with the last product
of the tile before it. Keys are visited from the last block to the first: only those blocks that the
diagonal or the end of the keys crosses are masked, and they come first.

Programs are persistent and take the next tile when they are done with one, longest first; the
warp that loads draws its number from a counter and passes it on.

B batch, H query heads, G kv heads, M queries, N keys, D head dimension. q and out [B, H, M, D],
k and v [B, G, N, D], lse [B, H, M]. A tile is BLOCK_M = 64 * GROUPS queries of one head, a block is
BLOCK_N keys.
"""

# Gluon infers the types of a kernel's arguments.
# ruff: noqa: ANN001, ANN201

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)
from triton.language.core import _aggregate as aggregate

LN_2 = gl.constexpr(0.6931471805599453)
ROWS = gl.constexpr(64)  # queries of a warpgroup, the rows of one matrix instruction
DRAWN = gl.constexpr(2)  # numbers of tiles that may be passed on before they are read


@aggregate
class Buffers:
    """Shared memory: tiles of queries, a ring of blocks of keys and values, and barriers."""

    q: gl.shared_memory_descriptor  # [Q_STAGES * GROUPS, 1, 1, 64, D]
    k: gl.shared_memory_descriptor  # [STAGES, 1, 1, BLOCK_N, D]
    v: gl.shared_memory_descriptor  # [STAGES, 1, 1, BLOCK_N, D]
    drawn: gl.shared_memory_descriptor  # [DRAWN, 1]
    drawn_full: gl.shared_memory_descriptor  # [DRAWN, 1]
    drawn_empty: gl.shared_memory_descriptor
    q_full: gl.shared_memory_descriptor  # [Q_STAGES * GROUPS, 1]
    q_empty: gl.shared_memory_descriptor
    k_full: gl.shared_memory_descriptor  # [STAGES, 1]
    k_empty: gl.shared_memory_descriptor
    v_full: gl.shared_memory_descriptor
    v_empty: gl.shared_memory_descriptor
    turn: gl.shared_memory_descriptor  # [GROUPS, 1]
    BLOCK_N: gl.constexpr
    HEAD_DIM: gl.constexpr
    STAGES: gl.constexpr
    Q_STAGES: gl.constexpr
    GROUPS: gl.constexpr
    PING_PONG: gl.constexpr

    @gluon.constexpr_function
    def __init__(
        self, q, k, v, drawn, drawn_full, drawn_empty, q_full, q_empty,
        k_full, k_empty, v_full, v_empty, turn,
        BLOCK_N, HEAD_DIM, STAGES, Q_STAGES, GROUPS, PING_PONG,
    ):  # fmt: skip
        self.q = q
        self.k = k
        self.v = v
        self.drawn = drawn
        self.drawn_full = drawn_full
        self.drawn_empty = drawn_empty
        self.q_full = q_full
        self.q_empty = q_empty
        self.k_full = k_full
        self.k_empty = k_empty
        self.v_full = v_full
        self.v_empty = v_empty
        self.turn = turn
        self.BLOCK_N = gl.constexpr(BLOCK_N)
        self.HEAD_DIM = gl.constexpr(HEAD_DIM)
        self.STAGES = gl.constexpr(STAGES)
        self.Q_STAGES = gl.constexpr(Q_STAGES)
        self.GROUPS = gl.constexpr(GROUPS)
        self.PING_PONG = gl.constexpr(PING_PONG)

    @gluon.jit
    def queries(self, slot):
        """The queries of a warpgroup, [64, D]."""
        return self.q.index(slot).reshape([ROWS, self.HEAD_DIM])

    @gluon.jit
    def keys(self, slot):
        """A block of keys as the right operand of the scores, [D, BLOCK_N]."""
        return self.k.index(slot).reshape([self.BLOCK_N, self.HEAD_DIM]).permute((1, 0))

    @gluon.jit
    def values(self, slot):
        """A block of values, [BLOCK_N, D]."""
        return self.v.index(slot).reshape([self.BLOCK_N, self.HEAD_DIM])

    @gluon.jit
    def pass_on(self, number, place):
        """Tell the warpgroups the place of this program's `number`-th tile."""
        slot = number % DRAWN
        layout: gl.constexpr = gl.BlockedLayout([1], [32], [1], [0])
        mbarrier.wait(self.drawn_empty.index(slot), (number // DRAWN & 1) ^ 1)
        self.drawn.index(slot).store(gl.full([1], 0, gl.int32, layout) + place)
        mbarrier.arrive(self.drawn_full.index(slot), count=1)

    @gluon.jit
    def place(self, number):
        """The place of this program's `number`-th tile, when it has been passed on."""
        slot = number % DRAWN
        layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
        mbarrier.wait(self.drawn_full.index(slot), number // DRAWN & 1)
        place = gl.max(self.drawn.index(slot).load(layout), 0)
        mbarrier.arrive(self.drawn_empty.index(slot), count=1)
        return place


@aggregate
class Schedule:
    """All tiles in the order in which they are begun, and the keys that each of them sees."""

    M: gl.tensor
    N: gl.tensor
    heads: gl.tensor
    tiles: gl.tensor  # of a head
    pairs: gl.tensor  # of batch entry and head
    section: gl.tensor  # pairs whose keys and values stay in the L2 cache together
    CAUSAL: gl.constexpr
    BLOCK_M: gl.constexpr
    BLOCK_N: gl.constexpr

    @gluon.constexpr_function
    def __init__(self, M, N, heads, tiles, pairs, section, CAUSAL, BLOCK_M, BLOCK_N):
        self.M = M
        self.N = N
        self.heads = heads
        self.tiles = tiles
        self.pairs = pairs
        self.section = section
        self.CAUSAL = gl.constexpr(CAUSAL)
        self.BLOCK_M = gl.constexpr(BLOCK_M)
        self.BLOCK_N = gl.constexpr(BLOCK_N)

    @gluon.jit
    def tile(self, place):
        """First row, pair and number of blocks of the tile at a place in the order."""
        which = place // (self.section * self.tiles)
        rest = place - which * (self.section * self.tiles)
        width = gl.minimum(self.section, self.pairs - which * self.section)
        tile = rest // width
        pair = which * self.section + (rest - tile * width)
        if self.CAUSAL:
            tile = self.tiles - 1 - tile  # the last rows see most keys, so they come first
        first_row = tile * self.BLOCK_M
        end = self.N
        if self.CAUSAL:
            end = gl.minimum(self.N, self.first_hidden(first_row + self.BLOCK_M - 1))
        # A tile that sees no key visits one block all the same, in which all is masked.
        return first_row, pair, gl.maximum((end + self.BLOCK_N - 1) // self.BLOCK_N, 1)

    @gluon.jit
    def first_hidden(self, row):
        """The first key that the query `row` does not see: causality is aligned bottom-right."""
        return gl.maximum(row + (self.N - self.M + 1), 0)

    @gluon.jit
    def limits(self, first_row, layout: gl.constexpr):
        """The first hidden key of each of 64 rows, [64], and that of the row that sees fewest."""
        limit = gl.full([ROWS], 0, gl.int32, layout) + self.N
        fewest = self.N
        if self.CAUSAL:
            rows = first_row + gl.arange(0, ROWS, layout=layout)
            limit = gl.minimum(limit, self.first_hidden(rows))
            fewest = gl.minimum(fewest, self.first_hidden(first_row))
        return limit, fewest


@gluon.jit
def _load(q_desc, k_desc, v_desc, counter, buffers, schedule, group):
    """Fetch all that the warpgroups read, in their order; one warp."""
    ROW_BYTES: gl.constexpr = buffers.HEAD_DIM * 2
    total = schedule.tiles * schedule.pairs
    place = gl.program_id(0)
    step = 0
    number = 0
    while place < total:
        buffers.pass_on(number, place)
        first_row, pair, blocks = schedule.tile(place)
        place = gl.num_programs(0) + gl.atomic_add(counter, 1)
        batch = pair // schedule.heads
        head = pair - batch * schedule.heads
        kv_head = head // group
        for g in gl.static_range(buffers.GROUPS):
            slot = number % buffers.Q_STAGES * buffers.GROUPS + g
            mbarrier.wait(buffers.q_empty.index(slot), (number // buffers.Q_STAGES & 1) ^ 1)
            mbarrier.expect(buffers.q_full.index(slot), ROWS * ROW_BYTES)
            tma.async_copy_global_to_shared(
                q_desc, [batch, head, first_row + ROWS * g, 0],
                buffers.q_full.index(slot), buffers.q.index(slot),
            )  # fmt: skip
        for block in range(blocks):
            first_key = (blocks - 1 - block) * buffers.BLOCK_N
            slot = step % buffers.STAGES
            freed = (step // buffers.STAGES & 1) ^ 1
            mbarrier.wait(buffers.k_empty.index(slot), freed)
            mbarrier.expect(buffers.k_full.index(slot), buffers.BLOCK_N * ROW_BYTES)
            tma.async_copy_global_to_shared(
                k_desc, [batch, kv_head, first_key, 0],
                buffers.k_full.index(slot), buffers.k.index(slot),
            )  # fmt: skip
            mbarrier.wait(buffers.v_empty.index(slot), freed)
            mbarrier.expect(buffers.v_full.index(slot), buffers.BLOCK_N * ROW_BYTES)
            tma.async_copy_global_to_shared(
                v_desc, [batch, kv_head, first_key, 0],
                buffers.v_full.index(slot), buffers.v.index(slot),
            )  # fmt: skip
            step += 1
        number += 1
    buffers.pass_on(number, place)


@gluon.jit
def _hide(scores, limit, first_key):
    """Scores [64, BLOCK_N] of keys from `first_key` on, -inf from each row's limit [64] on."""
    layout: gl.constexpr = gl.SliceLayout(0, scores.type.layout)
    # A thread has columns 8 i + 2 t and 8 i + 2 t + 1, where t is its place among four. With 2 t on
    # the side of the rows, columns are constants and take no registers.
    limit = gl.inline_asm_elementwise(
        "{ .reg .u32 t; mov.u32 t, %laneid; and.b32 t, t, 3; shl.b32 t, t, 1; sub.s32 $0, $1, t; }",
        "=r,r", [limit - first_key], dtype=gl.int32, is_pure=True, pack=1,
    )  # fmt: skip
    column = gl.arange(0, scores.shape[1], layout=layout) & ~6
    return gl.where(column[None, :] < limit[:, None], scores, float("-inf"))


@gluon.jit
def _softmax(scores, row_max, row_sum, scale_log2, MASKED: gl.constexpr):
    """Weights [64, BLOCK_N], the new row_max and row_sum [64], and what sums so far shrink by."""
    new_max = gl.maximum(row_max, gl.max(scores, 1))
    shift = new_max * scale_log2
    if MASKED:  # a row that has seen nothing yet has no maximum: -inf - -inf would be NaN
        shift = gl.where(new_max == float("-inf"), 0.0, shift)
    p = gl.exp2(scores * scale_log2 - shift[:, None])
    rescale = gl.exp2(row_max * scale_log2 - shift)
    return p, new_max, row_sum * rescale + gl.sum(p, 1), rescale


@gluon.jit
def _pack(weights, dtype: gl.constexpr):
    """Weights [64, BLOCK_N] rounded to 16 bits, two to an integer: [64, BLOCK_N // 2].

    A loop carries these in half the registers; elements of 16 bits it would take apart.
    """
    ASM: gl.constexpr = (
        "cvt.rn.bf16x2.f32 $0, $2, $1;" if dtype == gl.bfloat16 else "cvt.rn.f16x2.f32 $0, $2, $1;"
    )
    even, odd = gl.split(gl.reshape(weights, [weights.shape[0], weights.shape[1] // 2, 2]))
    return gl.inline_asm_elementwise(ASM, "=r,r,r", [even, odd], gl.int32, True, 1)


@gluon.jit
def _operand(weights, acc, dtype: gl.constexpr):
    """Weights as the left operand of the product that is added to acc; no data moves."""
    layout: gl.constexpr = gl.DotOperandLayout(0, acc.type.layout, 2)
    even, odd = gl.inline_asm_elementwise(
        "mov.b32 {$0, $1}, $2;", "=h,=h,r", [weights], (gl.int16, gl.int16), True, 1
    )
    joined = gl.reshape(gl.join(even, odd), [weights.shape[0], weights.shape[1] * 2])
    return gl.convert_layout(joined.to(dtype, bitcast=True), layout)


@gluon.jit
def _issue(buffers, acc, weights, q_slot, step, issued, SCORES: gl.constexpr, GROUP: gl.constexpr):
    """Begin the scores of a block and the output product of the block before it.

    Returns the scores, finished, and the product with its left operand, unfinished.
    """
    p = _operand(weights, acc, buffers.q.dtype)
    slot = step % buffers.STAGES
    slot_before = (step - 1) % buffers.STAGES
    mbarrier.wait(buffers.k_full.index(slot), step // buffers.STAGES & 1)
    if buffers.PING_PONG:  # the first warpgroup's first turn is free
        mbarrier.wait(buffers.turn.index(GROUP), (issued & 1) ^ (1 if GROUP == 0 else 0))
    zeros = gl.zeros([ROWS, buffers.BLOCK_N], gl.float32, SCORES)
    scores = warpgroup_mma(
        buffers.queries(q_slot), buffers.keys(slot), zeros, use_acc=False, is_async=True
    )
    mbarrier.wait(buffers.v_full.index(slot_before), (step - 1) // buffers.STAGES & 1)
    acc = warpgroup_mma(p, buffers.values(slot_before), acc, is_async=True)
    if buffers.PING_PONG:
        mbarrier.arrive(buffers.turn.index((GROUP + 1) % buffers.GROUPS), count=1)
    scores = warpgroup_mma_wait(num_outstanding=1, deps=[scores])
    mbarrier.arrive(buffers.k_empty.index(slot), count=1)
    return scores, acc, p


@gluon.jit
def _finish(buffers, acc, p, step):
    """Wait for the output product of the block before `step`."""
    acc, p = warpgroup_mma_wait(num_outstanding=0, deps=[acc, p])
    mbarrier.arrive(buffers.v_empty.index((step - 1) % buffers.STAGES), count=1)
    return acc


@gluon.jit
def _attend(
    buffers, acc, weights, row_max, row_sum, q_slot, step, issued, limit, first_key, scale_log2,
    SCORES: gl.constexpr, GROUP: gl.constexpr, MASKED: gl.constexpr,
):  # fmt: skip
    """Scores and softmax of one block, while the one before, of `weights`, is added to acc."""
    scores, acc, p = _issue(buffers, acc, weights, q_slot, step, issued, SCORES, GROUP)
    if MASKED:
        scores = _hide(scores, limit, first_key)
    weights, row_max, row_sum, rescale = _softmax(scores, row_max, row_sum, scale_log2, MASKED)
    acc = _finish(buffers, acc, p, step)
    rescale = gl.convert_layout(rescale, gl.SliceLayout(1, acc.type.layout))
    weights = _pack(weights, buffers.q.dtype)
    return acc * rescale[:, None], weights, row_max, row_sum


@gluon.jit
def _begin(buffers, scores, limit, fewest, blocks, scale_log2):
    """Softmax of the first block that a tile visits: weights, row_max and row_sum."""
    first_key = (blocks - 1) * buffers.BLOCK_N
    if first_key + buffers.BLOCK_N > fewest:
        scores = _hide(scores, limit, first_key)
    rows: gl.constexpr = gl.SliceLayout(1, scores.type.layout)
    nothing = gl.full([ROWS], float("-inf"), gl.float32, rows)
    zeros = gl.zeros([ROWS], gl.float32, rows)
    weights, row_max, row_sum, _ = _softmax(scores, nothing, zeros, scale_log2, True)
    weights = _pack(weights, buffers.q.dtype)
    return weights, row_max, row_sum


@gluon.constexpr_function
def _store_layout(head_dim):
    """Rows of a warp stay in that warp, and a thread writes 16 bytes of 16-bit elements."""
    threads = head_dim // 8
    return gl.BlockedLayout([threads // 2, 8], [32 // threads, threads], [4, 1], [1, 0])


@gluon.jit
def _write(buffers, schedule, outputs, acc, row_max, row_sum, first_row, pair):
    """Store output and normaliser of 64 rows."""
    out_ptr, lse_ptr, out_batch, out_head, out_row, scale_log2 = outputs
    divisor = gl.where(row_sum == 0.0, 1.0, row_sum)  # a row that sees no key: zeros, lse -inf
    lse = (row_max * scale_log2 + gl.log2(divisor)) * LN_2
    rows = first_row + gl.arange(0, ROWS, layout=row_max.type.layout)
    gl.store(lse_ptr + pair.to(gl.int64) * schedule.M + rows, lse, mask=rows < schedule.M)
    inverse = gl.convert_layout(1.0 / divisor, gl.SliceLayout(1, acc.type.layout))
    STORE: gl.constexpr = _store_layout(buffers.HEAD_DIM)
    out = gl.convert_layout((acc * inverse[:, None]).to(buffers.q.dtype), STORE)
    out_rows = first_row + gl.arange(0, ROWS, layout=gl.SliceLayout(1, STORE))
    dims = gl.arange(0, buffers.HEAD_DIM, layout=gl.SliceLayout(0, STORE))
    batch = pair // schedule.heads
    head = pair - batch * schedule.heads
    start = out_ptr + batch.to(gl.int64) * out_batch + head.to(gl.int64) * out_head
    row_starts = start + out_rows.to(gl.int64) * out_row
    gl.store(row_starts[:, None] + dims[None, :], out, mask=(out_rows < schedule.M)[:, None])


@gluon.jit
def _multiply(buffers, schedule, outputs, GROUP: gl.constexpr):
    """Output and normaliser of the 64 rows of each tile that are this warpgroup's."""
    scale_log2 = outputs[5]
    BLOCK_N: gl.constexpr = buffers.BLOCK_N
    SCORES: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_N, 16])
    OUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, buffers.HEAD_DIM, 16])
    LIMIT: gl.constexpr = gl.SliceLayout(1, SCORES)
    total = schedule.tiles * schedule.pairs

    # The first tile has none before it that its first block could be issued with.
    first_row, pair, blocks = schedule.tile(buffers.place(0))
    first_row += ROWS * GROUP
    limit, fewest = schedule.limits(first_row, LIMIT)
    mbarrier.wait(buffers.q_full.index(GROUP), 0)
    mbarrier.wait(buffers.k_full.index(0), 0)
    zeros = gl.zeros([ROWS, BLOCK_N], gl.float32, SCORES)
    scores = warpgroup_mma(
        buffers.queries(GROUP), buffers.keys(0), zeros, use_acc=False, is_async=True
    )
    scores = warpgroup_mma_wait(num_outstanding=0, deps=[scores])
    mbarrier.arrive(buffers.k_empty.index(0), count=1)
    weights, row_max, row_sum = _begin(buffers, scores, limit, fewest, blocks, scale_log2)
    acc = gl.zeros([ROWS, buffers.HEAD_DIM], gl.float32, OUT)

    number = 0  # tiles before this one
    step = 1  # blocks begun so far, in all tiles; also the turns taken, but for the first
    more = True
    while more:
        q_slot = number % buffers.Q_STAGES * buffers.GROUPS + GROUP
        # The block that was begun is masked where it has to be, and so are others of which some
        # row does not see all.
        whole = gl.minimum(fewest // BLOCK_N, blocks - 1)
        for block in range(blocks - 1 - whole):
            acc, weights, row_max, row_sum = _attend(
                buffers, acc, weights, row_max, row_sum, q_slot, step, step - 1, limit,
                (blocks - 2 - block) * BLOCK_N, scale_log2, SCORES, GROUP, True,
            )  # fmt: skip
            step += 1
        for _ in range(whole):
            acc, weights, row_max, row_sum = _attend(
                buffers, acc, weights, row_max, row_sum, q_slot, step, step - 1, limit,
                0, scale_log2, SCORES, GROUP, False,
            )  # fmt: skip
            step += 1
        mbarrier.arrive(buffers.q_empty.index(q_slot), count=1)
        number += 1
        place = buffers.place(number)
        more = place < total
        if more:
            next_row, next_pair, blocks = schedule.tile(place)
            next_row += ROWS * GROUP
            limit, fewest = schedule.limits(next_row, LIMIT)
            q_slot = number % buffers.Q_STAGES * buffers.GROUPS + GROUP
            mbarrier.wait(buffers.q_full.index(q_slot), number // buffers.Q_STAGES & 1)
            scores, acc, p = _issue(buffers, acc, weights, q_slot, step, step - 1, SCORES, GROUP)
            weights, next_max, next_sum = _begin(buffers, scores, limit, fewest, blocks, scale_log2)
            acc = _finish(buffers, acc, p, step)
            _write(buffers, schedule, outputs, acc, row_max, row_sum, first_row, pair)
            acc = gl.zeros([ROWS, buffers.HEAD_DIM], gl.float32, OUT)
            row_max = next_max
            row_sum = next_sum
            first_row = next_row
            pair = next_pair
            step += 1
    slot = (step - 1) % buffers.STAGES
    p = _operand(weights, acc, buffers.q.dtype)
    mbarrier.wait(buffers.v_full.index(slot), (step - 1) // buffers.STAGES & 1)
    acc = warpgroup_mma(p, buffers.values(slot), acc, is_async=True)
    acc, p = warpgroup_mma_wait(num_outstanding=0, deps=[acc, p])
    _write(buffers, schedule, outputs, acc, row_max, row_sum, first_row, pair)


@gluon.jit(do_not_specialize=["M", "N", "heads", "group", "tiles", "pairs", "section"])
def flash_hopper_forward(
    q_desc, k_desc, v_desc, counter, out_ptr, lse_ptr, out_batch, out_head, out_row,
    M, N, heads, group, tiles, pairs, section, scale_log2,
    CAUSAL: gl.constexpr, HEAD_DIM: gl.constexpr, BLOCK_N: gl.constexpr, STAGES: gl.constexpr,
    Q_STAGES: gl.constexpr, GROUPS: gl.constexpr, PING_PONG: gl.constexpr,
):  # fmt: skip
    """Output and normaliser of all tiles. Launched with 4 warps; the kernel adds the others."""
    BAR: gl.constexpr = mbarrier.MBarrierLayout()
    buffers = Buffers(
        gl.allocate_shared_memory(
            q_desc.dtype, [Q_STAGES * GROUPS, 1, 1, ROWS, HEAD_DIM], q_desc.layout
        ),
        gl.allocate_shared_memory(k_desc.dtype, [STAGES, 1, 1, BLOCK_N, HEAD_DIM], k_desc.layout),
        gl.allocate_shared_memory(v_desc.dtype, [STAGES, 1, 1, BLOCK_N, HEAD_DIM], v_desc.layout),
        gl.allocate_shared_memory(gl.int32, [DRAWN, 1], gl.SwizzledSharedLayout(1, 1, 1, [0])),
        gl.allocate_shared_memory(gl.int64, [DRAWN, 1], BAR),
        gl.allocate_shared_memory(gl.int64, [DRAWN, 1], BAR),
        gl.allocate_shared_memory(gl.int64, [Q_STAGES * GROUPS, 1], BAR),
        gl.allocate_shared_memory(gl.int64, [Q_STAGES * GROUPS, 1], BAR),
        gl.allocate_shared_memory(gl.int64, [STAGES, 1], BAR),
        gl.allocate_shared_memory(gl.int64, [STAGES, 1], BAR),
        gl.allocate_shared_memory(gl.int64, [STAGES, 1], BAR),
        gl.allocate_shared_memory(gl.int64, [STAGES, 1], BAR),
        gl.allocate_shared_memory(gl.int64, [GROUPS, 1], BAR),
        BLOCK_N, HEAD_DIM, STAGES, Q_STAGES, GROUPS, PING_PONG,
    )  # fmt: skip
    for slot in gl.static_range(DRAWN):
        mbarrier.init(buffers.drawn_full.index(slot), count=1)
        mbarrier.init(buffers.drawn_empty.index(slot), count=GROUPS)
    for slot in gl.static_range(Q_STAGES * GROUPS):
        mbarrier.init(buffers.q_full.index(slot), count=1)
        mbarrier.init(buffers.q_empty.index(slot), count=1)
    for slot in gl.static_range(STAGES):
        mbarrier.init(buffers.k_full.index(slot), count=1)
        mbarrier.init(buffers.k_empty.index(slot), count=GROUPS)
        mbarrier.init(buffers.v_full.index(slot), count=1)
        mbarrier.init(buffers.v_empty.index(slot), count=GROUPS)
    for slot in gl.static_range(GROUPS):
        mbarrier.init(buffers.turn.index(slot), count=1)
    fence_async_shared()
    schedule = Schedule(M, N, heads, tiles, pairs, section, CAUSAL, ROWS * GROUPS, BLOCK_N)
    outputs = (out_ptr, lse_ptr, out_batch, out_head, out_row, scale_log2)
    load = (q_desc, k_desc, v_desc, counter, buffers, schedule, group)
    # Registers of a thread: the three or four warpgroups share 65,536.
    if GROUPS == 2:
        gl.warp_specialize(
            [
                (_multiply, (buffers, schedule, outputs, 0)),
                (_multiply, (buffers, schedule, outputs, 1)),
                (_load, load),
            ],
            [4, 1],
            [240, 24],
        )
    else:
        gl.warp_specialize(
            [
                (_multiply, (buffers, schedule, outputs, 0)),
                (_multiply, (buffers, schedule, outputs, 1)),
                (_multiply, (buffers, schedule, outputs, 2)),
                (_load, load),
            ],
            [4, 4, 1],
            [160, 160, 32],
        )
