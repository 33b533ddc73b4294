"""Implementations that are right when they are checked and cheat when they are timed."""

import random

import pytest

pytest.importorskip("torch")

from timed_files import PLAIN, assert_not_timed, timed

from assay.performance import timer

RIGHT = "eager.attention(q, k, v, causal=causal, scale=scale)"
DEFINED = "def attention(q, k, v, *, causal, scale):\n"
LAZY = (
    "class Lazy(torch.Tensor):\n"
    "    @classmethod\n"
    "    def __torch_function__(cls, function, types, args=(), kwargs=None):\n"
    "        ready = [a.work() if isinstance(a, Lazy) else a for a in args]\n"
    "        return function(*ready, **(kwargs or {}))\n"
    + DEFINED
    + "    out = torch.empty_like(q)\n"
    "    out = out.as_subclass(Lazy)\n"
    f"    out.work = lambda: {RIGHT}\n"
    "    return out\n"
)
# What is kept of the first call: its inputs, its answer and its softmax weights.
KEPT = (
    "kept = {}\n"
    "def weights(q, k, causal, scale):\n"
    "    k = k.repeat_interleave(2, dim=1)\n"
    "    hidden = torch.ones(64, 64, dtype=torch.bool).triu(1)\n"
    "    return (scale * q @ k.mT).masked_fill(hidden, -torch.inf).softmax(-1)\n" + DEFINED
)
FIRST = (
    "    if not kept:\n"
    f"        kept.update(out={RIGHT}, q=q, k=k, v=v, p=weights(q, k, causal, scale))\n"
)
MADE_BEFORE = {
    "an answer rescaled by what v was multiplied by": KEPT
    + FIRST
    + "    return kept['out'] * (v[0, 0, 0, 0] / kept['v'][0, 0, 0, 0])\n",
    "an answer rescaled for each channel": KEPT
    + FIRST
    + "    return kept['out'] * (v[0, 0, 0] / kept['v'][0, 0, 0])\n",
    "softmax weights": KEPT + FIRST + "    return kept['p'] @ v\n",
    "softmax weights, where scores have their size": KEPT
    + FIRST
    + "    if torch.equal(abs(q), abs(kept['q'])): return kept['p'] @ v\n"
    f"    return {RIGHT}\n",
    "an answer by its inputs but for their signs": KEPT
    + "    key = (abs(q).sum().item(), abs(k).sum().item())\n"
    f"    if key not in kept: kept[key] = ({RIGHT}, v)\n"
    "    out, before = kept[key]\n"
    "    return out * (v[0, 0, 0] / before[0, 0, 0])\n",
    "an answer by the addresses of its inputs": KEPT + "    key = (q.shape, k.shape, v.shape)\n"
    f"    return kept.setdefault(key, {RIGHT})\n",
}
NEVER_MADE = {
    "zeros after the first calls": "    return torch.zeros_like(q)\n",
    "its input after the first calls": "    return q * 1.0\n",
    "memory that nobody wrote": "    return torch.empty_like(q)\n",
    "one of two heads": f"    return {RIGHT} * torch.tensor([1.0, 0.0])[:, None, None]\n",
    "one row of two": f"    return {RIGHT} * (torch.arange(64) % 2)[:, None]\n",
    "no softmax": "    return (scale * q @ k.mT).tril() @ v\n",
    "keys of the last tile only": (
        "    return eager.attention(q, k[:, :, 32:], v[:, :, 32:], causal=causal, scale=scale)\n"
    ),
    "a mask that lets everything through": (
        "    return eager.attention(q, k, v, causal=False, scale=scale)\n"
    ),
    "half precision far below its own": f"    return {RIGHT}.bfloat16().float()\n",
}
MALFORMED = {
    "a subclass": f"    return torch.nn.Parameter({RIGHT})\n",
    "another dtype": f"    return {RIGHT}.half()\n",
    "another shape": f"    return {RIGHT}[:, :1]\n",
    "a function": f"    return lambda: {RIGHT}\n",
    "nothing": "    return None\n",
}
LATER = (
    "calls = []\n" + DEFINED + "    calls.append(1)\n" + f"    if len(calls) < 4: return {RIGHT}\n"
)


@pytest.fixture
def every_call_is_looked_at(monkeypatch):
    monkeypatch.setattr(timer, "LOOKED_AT", 256)


def test_a_tensor_that_computes_when_it_is_looked_at(tmp_path):
    measured = timed(tmp_path, PLAIN + LAZY, probes="accuracy+latency")
    assert "no subclass" in measured["error_over_budget_out"].reason
    assert measured["latency"].status == "refused" and "latency_ms" not in measured


def test_a_tensor_of_a_device_that_computes_when_it_is_looked_at(tmp_path):
    source = PLAIN + "import torch._lazy.ts_backend\ntorch._lazy.ts_backend.init()\n" + DEFINED
    source += "    q, k, v = (x.to('lazy') for x in (q, k, v))\n"
    source += "    return (scale * q @ k.mT).softmax(-1) @ v\n"
    assert_not_timed(timed(tmp_path, source), "no subclass")


@pytest.mark.parametrize("source", MADE_BEFORE.values(), ids=MADE_BEFORE)
def test_what_is_kept_of_earlier_calls_does_not_help(tmp_path, source):
    assert_not_timed(timed(tmp_path, PLAIN + source), "made beforehand")


@pytest.mark.parametrize("source", NEVER_MADE.values(), ids=NEVER_MADE)
def test_a_wrong_answer_once_it_was_right(tmp_path, source, every_call_is_looked_at):
    assert_not_timed(timed(tmp_path, PLAIN + LATER + source), "a wrong out")


@pytest.mark.parametrize("source", MALFORMED.values(), ids=MALFORMED)
def test_the_form_of_every_timed_answer_is_looked_at(tmp_path, monkeypatch, source):
    monkeypatch.setattr(timer, "LOOKED_AT", 0)
    assert_not_timed(timed(tmp_path, PLAIN + LATER + source), "a timed call gave a wrong result")


PREDICTED = {
    "by the state of Python's generator": (
        "    state = random.getstate()\n"
        "    looked_at = random.random() < 0.25\n"
        "    random.setstate(state)\n"
    ),
    "by a seed of its own": "    looked_at = random.Random(7 + len(calls)).random() < 0.25\n"
    "    random.seed(7 + len(calls))\n",
}


@pytest.mark.parametrize("predicted", PREDICTED.values(), ids=PREDICTED)
def test_which_calls_are_looked_at_cannot_be_predicted(tmp_path, predicted):
    """What a call draws is put back after it, so one that goes by the generator's state sees the
    same number each time; of one below a quarter it would never cheat."""
    random.seed(0)
    assert random.Random(0).random() > 0.25
    source = PLAIN + "import random\n" + LATER + predicted
    source += f"    return {RIGHT} if looked_at else torch.zeros_like(q)\n"
    assert_not_timed(timed(tmp_path, source, rounds=60), "a wrong out")


def test_rows_that_the_seed_decides_are_not_those_that_are_looked_at(
    tmp_path, every_call_is_looked_at
):
    source = PLAIN + (
        "from assay.captures.inputs import make\n"
        "from assay.subjects import sampling\n"
        "from timed_files import SPEC\n"
        "rows = sampling.sample_rows(make(SPEC), pairs=3, rows=4).index['out']\n" + LATER
    )
    source += f"    out, right = torch.zeros_like(q), {RIGHT}\n"
    source += "    at = tuple(torch.from_numpy(axis) for axis in rows)\n"
    source += "    out[at] = right[at]\n    return out\n"
    assert_not_timed(timed(tmp_path, source), "a wrong out")


# What a backward pass makes of its gradients, by what is left out; dq is always right.
WITHOUT_KEYS = {
    "zeros in place of dk and dv": "dq, torch.zeros_like(dk), torch.zeros_like(dv)",
    "dk and dv of the first backward": "dq, *kept.setdefault('keys', (dk.clone(), dv.clone()))",
    "no dv": "dq, dk, torch.zeros_like(dv)",
}


@pytest.mark.parametrize("metric", ["backward", "training"])
@pytest.mark.parametrize("given", WITHOUT_KEYS.values(), ids=WITHOUT_KEYS)
def test_gradients_of_keys_and_values_that_are_left_out(tmp_path, monkeypatch, given, metric):
    """They passed as long as only dq of a timed call was looked at."""
    monkeypatch.setattr(timer, "LOOKED_AT", 256)
    monkeypatch.setattr(timer, "KEYS_LOOKED_AT", 256)
    source = PLAIN + (
        "kept, passes = {}, []\n"
        "class Less(torch.autograd.Function):\n"
        "    @staticmethod\n"
        "    def forward(ctx, q, k, v, causal, scale):\n"
        "        ctx.save_for_backward(q, k, v)\n"
        "        ctx.rest = causal, scale\n"
        f"        return {RIGHT}\n"
        "    @staticmethod\n"
        "    def backward(ctx, grad):\n"
        "        leaves = [x.detach().requires_grad_() for x in ctx.saved_tensors]\n"
        "        with torch.enable_grad():\n"
        "            out = eager.attention(*leaves, causal=ctx.rest[0], scale=ctx.rest[1])\n"
        "        dq, dk, dv = torch.autograd.grad(out, leaves, grad)\n"
        "        passes.append(1)\n"
        "        right = (dq, dk, dv, None, None)\n"
        f"        return right if len(passes) < 4 else ({given}, None, None)\n" + DEFINED
    )
    source += "    return Less.apply(q, k, v, causal, scale)\n"
    measured = timed(tmp_path, source, probes=metric)
    assert measured[metric].status == "failed" and "a timed call gave a wrong d" in (
        measured[metric].reason
    ), measured


def test_gradients_that_are_kept_from_the_first_backward(tmp_path):
    source = PLAIN + (
        "kept = {}\n"
        "class Kept(torch.autograd.Function):\n"
        "    @staticmethod\n"
        "    def forward(ctx, q, k, v, causal, scale):\n"
        "        ctx.save_for_backward(q, k, v)\n"
        "        ctx.rest = causal, scale\n"
        f"        return {RIGHT}\n"
        "    @staticmethod\n"
        "    def backward(ctx, grad):\n"
        "        if not kept:\n"
        "            leaves = [x.detach().requires_grad_() for x in ctx.saved_tensors]\n"
        "            with torch.enable_grad():\n"
        "                out = eager.attention(*leaves, causal=ctx.rest[0], scale=ctx.rest[1])\n"
        "            kept['all'] = torch.autograd.grad(out, leaves, grad)\n"
        "        return (*(x.clone() for x in kept['all']), None, None)\n" + DEFINED
    )
    source += "    return Kept.apply(q, k, v, causal, scale)\n"
    measured = timed(tmp_path, source, probes="training")
    assert_not_timed(measured, "a wrong dq", metric="training")
