"""Kernels with limits that they do not declare: the limits are found, and what is wrong inside.

Each is the plain sound file with a guard in its first lines, and half of them have a defect besides
that shows inside of their limits only.
"""

from dataclasses import dataclass, field
from pathlib import Path

import pytest

pytest.importorskip("torch")

from patches import patched

import assay
from assay.attention import limits

SOUND = (Path(__file__).parent / "sound" / "eager_plain.py").read_text()
FIRST = "    group, (queries, keys) = q.shape[1] // k.shape[1], (q.shape[2], k.shape[2])\n"
COMPILER = """
class CompileTimeAssertionFailure(Exception):
    pass


"""
SCALED_TWICE = {"scores = scale * (": "scores = scale * scale * ("}
TOP_LEFT = {"seen.tril(keys - queries)": "seen.tril()"}
# The gradient of a mask that is not causal is that of one that is.
WRONG_BACKWARD = {
    "    return weights.to(v.dtype) @ v": (
        "    out = weights.to(v.dtype) @ v\n"
        "    return out if causal else out.detach() + 0.3 * (out - out.detach())"
    )
}
FIRST_HEAD = {"x.repeat_interleave(group, dim=1)": "x[:, :1].expand(-1, q.shape[1], -1, -1)"}
UNMASKED_TAIL = {"seen.tril(keys - queries)": "seen.tril(keys - queries + (keys > 128))"}


@dataclass(frozen=True)
class Restricted:
    """A guard, the limits that it stands for, and a defect with a word of its likely cause."""

    guard: str
    limits: dict
    defect: dict[str, str] = field(default_factory=dict)
    cause: str = ""

    def write(self, path: Path) -> Path:
        lines = "".join(f"    {line}\n" for line in self.guard.splitlines())
        changes = {FIRST: FIRST + lines, **self.defect}
        head = COMPILER if "CompileTime" in self.guard else "\n\n"
        text = patched(SOUND, changes, name=path.name)
        path.write_text(text.replace('"torch"\n\n\n', f'"torch"\n{head}'))
        return path


DTYPES = ("float32", "float16")
POWERS = [16, 32, 64, 128, 256]
TUTORIAL = """\
assert q.dtype == torch.float16, "the kernel is for float16"
assert queries == keys and keys % 128 == 0
assert q.shape[1] == k.shape[1] and q.is_contiguous()
assert q.shape[3] in (16, 32, 64, 128, 256)"""
KERNELS = {
    "float16": Restricted("assert q.dtype == torch.float16", {"dtypes": ["float16"]}),
    "half": Restricted(
        'if q.dtype == torch.float32: raise ValueError("half precision only")',
        {"dtypes": ["float16", "bfloat16"]},
        SCALED_TWICE,
        "scale",
    ),
    "no bfloat16": Restricted(
        'if q.dtype == torch.bfloat16: raise NotImplementedError("no bfloat16")',
        {"dtypes": ["float32", "float16"]},
    ),
    "multiples of 128": Restricted(
        "assert keys % 128 == 0 and queries % 128 == 0", {"lengths": 128}, WRONG_BACKWARD, "full"
    ),
    "multiples of 64": Restricted("assert keys % 64 == queries % 64 == 0", {"lengths": 64}),
    "multiples of 16": Restricted(
        "assert not (keys % 16 or queries % 16)", {"lengths": 16}, TOP_LEFT, "top-left"
    ),
    "multiples of 8": Restricted("assert not (keys % 8 or queries % 8)", {"lengths": 8}),
    "one length": Restricted(
        'assert queries == keys, "one length"', {"queries": "equal"}, SCALED_TWICE, "scale"
    ),
    "no more queries": Restricted("assert queries <= keys", {"queries": "at most keys"}),
    "no fewer queries": Restricted("assert queries >= keys", {"queries": "at least keys"}),
    "powers of two": Restricted(
        "assert q.shape[3] & (q.shape[3] - 1) == 0", {"head_dims": POWERS}, TOP_LEFT, "top-left"
    ),
    "head dimension 64": Restricted("assert q.shape[3] == 64", {"head_dims": [64]}),
    "head dimensions to 128": Restricted(
        'if q.shape[3] > 128: raise ValueError("too wide")',
        {"widest": 128},
    ),
    "multiples of 48": Restricted("assert not (keys % 48 or queries % 48)", {"lengths": 48}),
    "one group": Restricted(
        "assert q.shape[1] == k.shape[1]", {"groups": [1]}, SCALED_TWICE, "scale"
    ),
    "groups of powers": Restricted(
        "assert group & (group - 1) == 0", {"groups": [1, 2, 4, 8]}, FIRST_HEAD, "head"
    ),
    "causal": Restricted("assert causal", {"masks": "causal"}, TOP_LEFT, "top-left"),
    "full": Restricted("assert not causal", {"masks": "full"}),
    "contiguous": Restricted(
        "assert q.is_contiguous() and k.is_contiguous()", {"contiguous": True}
    ),
    "few tokens": Restricted(
        "assert max(queries, keys) <= 200", {"longest": 200}, UNMASKED_TAIL, ""
    ),
    "many tokens": Restricted("assert min(queries, keys) >= 16", {"shortest": 16}),
    "tutorial": Restricted(
        TUTORIAL,
        {
            "dtypes": ["float16"],
            "head_dims": POWERS,
            "lengths": 128,
            "queries": "equal",
            "groups": [1],
            "contiguous": True,
        },
        WRONG_BACKWARD,
        "full",
    ),
    "few queries": Restricted(
        "assert queries <= 16 and queries <= keys",
        {"most_queries": 16, "queries": "at most keys"},
        {"seen.tril(keys - queries)": "seen.tril(keys - queries + (keys > 100))"},
        "a query sees one future key",
    ),
    "one query": Restricted("assert queries == 1", {"most_queries": 1}),
    "few queries and whole keys": Restricted(
        "assert queries <= 64 and keys % 128 == 0", {"lengths": 128, "most_queries": 64}
    ),
    "a block as long as what is short": Restricted(
        "assert not (keys % min(128, keys) or queries % min(128, queries))",
        {"lengths": 128, "any_up_to": 128},
        UNMASKED_TAIL,
        "",
    ),
    "a block of 64 as long as what is short": Restricted(
        "assert not (keys % min(64, keys) or queries % min(64, queries))",
        {"lengths": 64, "any_up_to": 64},
    ),
    "a block of a power of two": Restricted(
        "for n in (keys, queries):\n    assert n % 128 == 0 or n in (16, 32, 64)", {"lengths": 128}
    ),
    "compiler": Restricted(
        "if keys % 32 or queries % 32:\n"
        '    raise CompileTimeAssertionFailure("at 3:4:\\n  x\\n32 keys")',
        {"lengths": 32},
    ),
}


# The others are for `make test-full`.
QUICK = (
    "few queries",
    "a block as long as what is short",
    "float16",
    "multiples of 128",
    "powers of two",
    "few tokens",
    "compiler",
)


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in QUICK else pytest.mark.slow) for n in KERNELS]
)
@pytest.mark.sampled
def test_limits_are_found_and_what_is_wrong_inside(name, tmp_path):
    kernel = KERNELS[name]
    path = kernel.write(tmp_path / "restricted.py")
    probes = ["accuracy", "gradients", "shapes"]
    # Without instructions for it a CPU takes seconds for a case in bfloat16.
    dtypes = ("float32", "float16", "bfloat16") if "dtypes" in kernel.limits else DTYPES
    verdict = assay.check(str(path), quick=True, probes=probes, dtypes=dtypes)
    assert f"LIMITS = {kernel.limits}" in (verdict.limits or ""), verdict.limits
    assert {m.metric for m in verdict.measurements} == {"limits", "reach", *probes}, verdict
    if kernel.defect:
        causes = " ".join(f"{m.reason} {m.cause}" for m in verdict.failures)
        assert verdict.failures and kernel.cause in causes, str(verdict)
    else:
        assert verdict and all(len(m.samples) >= 12 for m in verdict.holding), str(verdict)


def test_declared_limits_are_kept_and_not_called_found(tmp_path):
    kernel = KERNELS["tutorial"]
    path = Restricted(kernel.guard, kernel.limits).write(tmp_path / "declares.py")
    path.write_text(
        path.read_text().replace("FRAMEWORK =", f"LIMITS = {kernel.limits}\nFRAMEWORK =")
    )
    verdict = assay.check(str(path), quick=True, probes=["shapes", "strides"])
    assert verdict and "to declare it" not in verdict.limits, str(verdict)
    assert limits.parse(kernel.limits, place="").words["lengths"] in verdict.limits


def test_limits_may_be_computed_and_one_that_is_too_wide_is_told(tmp_path):
    """LIMITS = {"lengths": BLOCK} was ignored without a word."""
    path = Restricted("assert not (keys % 32 or queries % 32)", {}).write(tmp_path / "wide.py")
    stated = "BLOCK = 16\nLIMITS = dict(lengths=BLOCK, groups=[1])\nFRAMEWORK ="
    path.write_text(path.read_text().replace("FRAMEWORK =", stated))
    verdict = assay.check(str(path), quick=True, probes=["shapes"], dtypes=DTYPES)
    assert verdict and "LIMITS = {'lengths': 32, 'groups': [1]}" in verdict.limits, str(verdict)


def test_a_kernel_whose_supports_allows_few_queries_is_judged_on_them(tmp_path):
    """A kernel for decoding said "no more than 16 queries" in `supports`. The search began with as
    many queries as keys, gave up, and the check ended as NOT RUN with every case unsupported."""
    path = Restricted("assert queries <= 16", {}).write(tmp_path / "decodes.py")
    path.write_text(
        path.read_text()
        + "\n\ndef supports(spec, host):\n"
        + '    return "no more than 16 queries" if spec.query_length > 16 else None\n'
    )
    verdict = assay.check(str(path), quick=True, dtypes=DTYPES)
    assert verdict and "it takes no more than 16 queries (no more than 16" in verdict.limits
    assert min(len(m.samples) for m in verdict.holding) >= 2, str(verdict)
    assert sum("unsupported" in (m.reason or "") for m in verdict.measurements) == 0, str(verdict)


def test_a_kernel_that_refuses_everything_is_not_judged(tmp_path):
    path = Restricted('raise ValueError("not today")', {}).write(tmp_path / "never.py")
    verdict = assay.check(str(path), quick=True, probes=["shapes"], dtypes=DTYPES)
    assert not verdict and not verdict.failures
    assert str(verdict).startswith("NOT RUN  never: ") and "not today" in str(verdict)


def test_what_raises_otherwise_is_a_defect_and_no_limit(tmp_path):
    path = Restricted("if keys % 2: raise IndexError(keys)", {}).write(tmp_path / "raises.py")
    verdict = assay.check(str(path), quick=True, probes=["shapes"])
    assert verdict.limits is None and "IndexError" in verdict.failures[0].reason
