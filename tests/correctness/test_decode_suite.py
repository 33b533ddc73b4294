"""The suite of decode kernels: a right one holds, and every planted fault is seen by a probe."""

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

pytest.importorskip("torch")

from assay import host, plugins
from assay.correctness.decode import suite
from assay.correctness.decode.cases import DecodeCases
from assay.correctness.decode.limits import DecodeLimits
from assay.errors import BadInput
from assay.subjects import decode

EXAMPLE = Path(__file__).parent.parent.parent / "docs" / "examples" / "my_decode.py"
OWN = [n for n, p in plugins.listing("probes").items() if p.literals["STAGE"] == suite.STAGE]
PROBES = (*OWN, *suite.SHARED)
ALL = frozenset({"lengths", "pages"})
END = ").to(q.dtype)\n"
# Text of the example and what stands there instead, and a probe that must see it.
FAULTS = {
    "ignores_lengths": ("if lengths is None:", "if True:", "ragged"),
    "misses_the_last_key": ("+ token + 1", "+ token", "tails"),
    "sees_a_key_too_many": ("+ token + 1", "+ token + 2", "new_tokens"),
    "ignores_the_value_scale": (' * streams["v_scale"].float()', "", "tails"),
    "groups_wrongly": ("x.repeat_interleave(group, dim=1)", "x.repeat(1, group, 1, 1)", "grouping"),
    "does_not_normalise": ("scores.softmax(-1)", "scores.exp()", "tails"),
    "is_aligned_top_left": (
        "lengths[:, None] - new + token + 1",
        "lengths[:, None] * (new == 1) + token + (new > 1)",
        "new_tokens",
    ),
    "averages_blind_rows": (".masked_fill(~visible, 0)", ".nan_to_num(1.0)", "ragged"),
    "copies_its_first_result": (
        "    return (weights",
        "    return KEPT.setdefault((q.shape, k.shape, q.dtype), (weights",
        "fresh_values",
    ),
    "keeps_what_it_made_of_a_pointer": (
        "    k, v = (x.repeat",
        '    k, v = KEPT.setdefault(streams["k"].data_ptr(), (k, v))\n    k, v = (x.repeat',
        "fresh_values",
    ),
    "writes_into_the_cache": (
        "    k, v = (x.repeat",
        '    streams["k"].mul_(2)\n    k, v = (x.repeat',
        "fresh_values",
    ),
    "shares_a_maximum": (
        "scores.softmax(-1)",
        "(w := (scores - scores.amax() / 3).exp()) / w.sum(-1, keepdim=True)",
        "neighbours",
    ),
    "depends_on_chance": (
        "(scale * q.float() @ k.mT)",
        "(scale * q.float() @ k.mT + 1e-6 * torch.rand(()))",
        "determinism",
    ),
    "forgets_values_of_late_keys": (
        "    k, v = (x.repeat",
        "    v = v * (torch.arange(v.shape[2]) < 2048)[:, None]\n    k, v = (x.repeat",
        "tails",
    ),
    "rolls_large_batches": (
        "    k, v = (x.repeat",
        "    v = v.roll(1, 0) if len(v) > 8 else v\n    k, v = (x.repeat",
        "tails",
    ),
    "reads_the_wrong_kv_head_from_33_on": (
        "    k, v = (x.repeat_interleave(group, dim=1) for x in (k, v))",
        "    own = torch.arange(q.shape[1])\n    reads = (own - (own >= 33).int()) // group\n"
        "    k, v = (x[:, reads] for x in (k, v))",
        "grouping",
    ),
    "overflows": ("(scale * q.float() @ k.mT)", "(q.float() @ (k * 1e20).mT * scale / 1e20)",
                  "magnitudes"),
}  # fmt: skip


def verdicts(
    file: Path | str, *probes: str, device: str = "cpu", folders: Sequence[Path] = ()
) -> dict:
    """The measurement of each probe, on its quick cases in float32 and float16."""
    reader = decode.load(str(file), folders)
    tested = suite.TestedReader(
        implementation=reader, host=host.inspect(commit=False), device=device
    )
    generator, _ = suite.generator_for(tested, seed=0, quick=True, dtypes=("float32", "float16"))
    loaded = {name: plugins.load(plugins.find("probes", name)) for name in probes or PROBES}
    items = suite.run(tested, loaded, generator, budget_s=120)
    return {m.metric: m for m in items if hasattr(m, "metric")}


def test_the_page_shows_the_example() -> None:
    page = EXAMPLE.parent.parent / "kernels" / "decode.md"
    assert EXAMPLE.read_text() in page.read_text()


def test_a_right_kernel_holds() -> None:
    results = verdicts(EXAMPLE)
    reach = results.pop("reach").data
    assert (reach["keys"], reach["batch"], reach["heads"][0]) == (4097, 17, [128, 1])
    assert reach["dtypes"] == ["float32", "float16"] and reach["not_reached"] == ["bfloat16"]
    assert set(results) == set(PROBES)
    unable = results.pop("paged")
    assert (unable.status, unable.subject) == ("unsupported", "k16v8:my_decode")
    assert "ACCEPTS does not name lengths and pages" in unable.reason
    assert {m.status for m in results.values()} == {"ok"}, results
    assert len(results["tails"].samples) == 9


def test_what_a_kernel_does_not_take_is_not_passed_over(tmp_path) -> None:
    """A kernel that ignores lengths held once, for ACCEPTS left them out and nobody said so."""
    file = tmp_path / "no_lengths.py"
    text = EXAMPLE.read_text().replace("if lengths is None:", "if True:")
    file.write_text(text.replace('("lengths",)', "()"))
    assert verdicts(file, "ragged")["ragged"].status == "unsupported"


@pytest.mark.parametrize(("stated", "status"), [("False", "unsupported"), ("True", "failed")])
def test_bits_that_change_are_declared_or_fail(stated, status, tmp_path) -> None:
    before, after, _ = FAULTS["depends_on_chance"]
    text = EXAMPLE.read_text().replace(before, after)
    file = tmp_path / f"chance_{stated}.py"
    file.write_text(text.replace("ACCEPTS", f"DETERMINISTIC = {stated}\nACCEPTS"))
    assert verdicts(file, "determinism")["determinism"].status == status


def test_what_is_no_switch_is_refused(tmp_path) -> None:
    file = tmp_path / "half_true.py"
    file.write_text(EXAMPLE.read_text().replace("ACCEPTS", 'DETERMINISTIC = "no"\nACCEPTS'))
    with pytest.raises(BadInput, match="DETERMINISTIC is 'no'; wanted one of True, False"):
        decode.load(str(file))


@pytest.mark.parametrize(
    ("fault", "probe", "named"),
    [
        ("ignores_lengths", "ragged", True),
        ("is_aligned_top_left", "new_tokens", True),
        ("sees_a_key_too_many", "new_tokens", True),
        ("ignores_the_value_scale", "ragged", False),
        ("does_not_normalise", "new_tokens", False),
    ],
)
def test_a_cause_is_named_where_it_is_one(tmp_path, fault, probe, named) -> None:
    """Whatever fails without lengths too has another cause than lengths."""
    before, after, _ = FAULTS[fault]
    file = tmp_path / f"{fault}.py"
    file.write_text(EXAMPLE.read_text().replace(before, after))
    failed = verdicts(file, probe)[probe]
    assert failed.status == "failed" and bool(failed.cause) == named


@pytest.mark.parametrize("factor", [1.02, 1.012, 1.5])
def test_a_small_factor_is_no_mistake_of_tokens_lengths_pages_or_state(tmp_path, factor) -> None:
    """Wrong by a factor of 1.02 in one dtype: at the edge of the budget it was right for a single
    token and wrong for several, so it was told that "the new tokens are not the last of the keys".
    Lengths, pages and results of earlier calls were blamed by the same reasoning."""
    file = tmp_path / "factor.py"
    end = f" * (1 + {factor - 1:.3f} * (q.dtype == torch.float16))"
    file.write_text(with_pages().replace(").to(q.dtype)\n", f"{end}).to(q.dtype)\n"))
    probes = ("new_tokens", "ragged", "paged", "fresh_values", "grouping", "tails")
    failed = [m for m in verdicts(file, *probes).values() if m.status == "failed"]
    if factor > 1.1:
        assert failed
    assert [m.cause for m in failed] == [None] * len(failed), failed


HALF_SCALES = '''"""Values of eight bits with a float16 scale for each token and head."""

import torch

from assay.kv.contract import Stream

EXACT = False
SCALES = "token and head"


def streams(spec):
    own = {"heads": spec.key_heads}
    return (
        Stream(name="k", width=spec.head_dim, dtype=spec.dtype, **own),
        Stream(name="v", width=spec.head_dim, dtype="int8", **own),
        Stream(name="v_scale", width=1, dtype="float16", **own),
    )


def encode(values, codecs=()):
    v = values["v"].float()
    scale = (v.abs().amax(-1, keepdim=True) / 127).clamp(min=1e-7).half()
    codes = (v / scale.float()).round().clamp(-127, 127).to(torch.int8)
    return {"k": values["k"], "v": codes, "v_scale": scale}


def decode(stored, codecs=()):
    return {"k": stored["k"], "v": stored["v"].float() * stored["v_scale"].float()}
'''


@pytest.mark.parametrize("fault", [None, "overflows"])
def test_what_a_layout_does_not_hold_is_not_asked_of_its_kernel(tmp_path, fault) -> None:
    """A float16 scale of a user's own layout overflows where values are 1e30. What it gave back
    were inf and NaN, and the kernel was called wrong; a kernel that overflows by itself still is.
    """
    for folder in ("decode", "layouts"):
        (tmp_path / folder).mkdir()
    (tmp_path / "layouts" / "half_scales.py").write_text(HALF_SCALES)
    text = EXAMPLE.read_text().replace('LAYOUT = "k16v8"', 'LAYOUT = "half_scales"')
    text = text.replace(*FAULTS[fault][:2]) if fault else text
    (tmp_path / "decode" / "of_half_scales.py").write_text(text)
    results = verdicts("of_half_scales", "magnitudes", folders=(tmp_path,))
    if fault:
        assert results["magnitudes"].status == "failed"
        assert "with keys of 1e+30 and values of 1000, " in results["magnitudes"].reason
        return
    assert results["magnitudes"].status == "ok" and len(results["magnitudes"].samples) == 2
    reason = "keys of 1e+30 and values of 1e+30: half_scales gives back inf or NaN for them"
    assert reason in results["conditions"].reason


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_fails(name, tmp_path) -> None:
    before, after, probe = FAULTS[name]
    text = EXAMPLE.read_text()
    assert before in text
    text = text.replace(before, after).replace('ACCEPTS = ("', 'KEPT = {}\nACCEPTS = ("')
    if "KEPT.setdefault((q" in text:
        text = text.replace(END, f"{END[:-1]})\n")
    file = tmp_path / f"{name}.py"
    file.write_text(text)
    result = verdicts(file, probe)[probe]
    assert result.status == "failed", result
    assert re.search(r"smallest failing case b\d+_h\d+.*; \d+ of \d+ cases fail$", result.reason)


def with_pages(check: str = "") -> str:
    """The example with pages, which are gathered after a check of theirs."""
    text = EXAMPLE.read_text().replace('("lengths",)', '("lengths", "pages")')
    gathered = (
        f"lengths=None, pages=None):\n    if pages is not None:\n{check}"
        "        streams = {n: t.view(torch.uint8)[pages.long()].transpose(1, 2).flatten(2, 3)\n"
        "            .view(t.dtype) for n, t in streams.items()}\n"
    )
    return re.sub(r"lengths=None\):.*\n", lambda _: gathered, text)


def test_pages_that_are_not_followed_fail(tmp_path) -> None:
    right = with_pages()
    (tmp_path / "followed.py").write_text(right)
    assert verdicts(tmp_path / "followed.py", "paged")["paged"].status == "ok"
    clamped = right.replace("pages.long()", "pages.flatten()[:256].long()[TAKEN]")
    few = "torch.arange(pages.numel()).clamp(max=255).view(pages.shape)"
    (tmp_path / "few.py").write_text(clamped.replace("TAKEN", few))
    assert verdicts(tmp_path / "few.py", "paged")["paged"].status == "failed"
    (tmp_path / "sorted.py").write_text(right.replace("pages.long()", "pages.long().sort(-1)[0]"))
    result = verdicts(tmp_path / "sorted.py", "paged")["paged"]
    assert result.status == "failed" and "pages are not followed" in result.cause


def test_cases_of_latents_have_one_row_for_all_heads() -> None:
    generator = DecodeCases(seed=0, quick=False, dtypes=("float32",), latent=True, accepts=ALL)
    loaded = {name: plugins.load(plugins.find("probes", name)) for name in PROBES}
    specs = [
        s for name in PROBES for s in suite.cases_of(name, loaded[name], generator, DecodeLimits())
    ]
    assert {spec.kv_heads for spec in specs} == {1}
    assert {spec.head_dim for spec in specs} == {256, 288}
    assert {spec.query_length for spec in specs} >= {1, 2, 16}


def test_time_that_is_over_is_incomplete() -> None:
    reader = decode.load(str(EXAMPLE))
    tested = suite.TestedReader(
        implementation=reader, host=host.inspect(commit=False), device="cpu"
    )
    generator = DecodeCases(seed=0, quick=True, dtypes=("float32",), latent=False)
    loaded = {"tails": plugins.load(plugins.find("probes", "tails"))}
    *_, result = suite.run(tested, loaded, generator, budget_s=-1.0)
    assert result.status == "timeout" and "0 of 9 cases run" in result.reason


# Lines at the head of the example that refuse some steps, and what the check says of them.
LIMITS = {
    "keys": ('assert streams["k"].shape[2] % 128 == 0', "multiples of 128 keys only"),
    "long": ('assert 64 <= streams["k"].shape[2] <= 512', "no fewer than 64 keys"),
    "width": ("assert q.shape[3] == 96", "head dimensions of 96 only"),
    "alone": ("assert q.shape[2] == 1", "a single new token only"),
    "few": ("assert q.shape[2] <= 8", "no more than 8 new tokens"),
    "one_or_three": ("assert q.shape[2] in (1, 3)", "1, 3 new tokens only"),
    "blocks": (
        'assert streams["k"].shape[2] % min(128, streams["k"].shape[2]) == 0',
        "up to 128 keys, or multiples of 128, only",
    ),
    "single": ("assert len(q) == 1", "batches of 1 only"),
    "group": ('assert q.shape[1] == 8 * streams["k"].shape[1]', "groups of 8 query heads only"),
    "half": ("assert q.dtype == torch.float16", "float16 only"),
}


def limited(folder: Path, line: str, *change: str) -> Path:
    """The example with limits, and a change where one is given."""
    text = EXAMPLE.read_text().replace("    new, group", f"    {line}\n    new, group")
    file = folder / "limited.py"
    file.write_text(text.replace(*change) if change else text)
    return file


@pytest.mark.parametrize("name", LIMITS)
def test_a_kernel_with_limits_is_held_to_as_many_cases(name, tmp_path) -> None:
    """A kernel that takes multiples of 128 keys held once, on a single case."""
    line, words = LIMITS[name]
    results = verdicts(limited(tmp_path, line))
    assert words in results.pop("limits").reason
    unable = {metric for metric, m in results.items() if m.status == "unsupported"}
    assert unable == ({"paged", "neighbours"} if name == "single" else {"paged"})
    assert {m.status for m in results.values()} == {"ok", "unsupported"}, results
    assert len(results["tails"].samples) >= 3 and len(results["grouping"].samples) >= 2


@pytest.mark.parametrize("fault", ["misses_the_last_key", "ignores_lengths", "groups_wrongly"])
def test_a_fault_within_limits_fails(fault, tmp_path) -> None:
    before, after, probe = FAULTS[fault]
    file = limited(tmp_path, LIMITS["keys"][0], before, after)
    assert verdicts(file, probe)[probe].status == "failed"


def test_few_cases_are_no_verdict(tmp_path) -> None:
    """A refusal that no limit explains stays one, and a probe that ran less than half is silent."""
    line = "assert lengths is None or lengths.max() < 30"
    result = verdicts(limited(tmp_path, line), "ragged", "tails")
    assert result["tails"].status == "ok" and "limits" not in result
    assert result["ragged"].status == "unsupported" and result["ragged"].value is None


def test_pages_that_are_refused_give_way_to_larger_ones(tmp_path) -> None:
    file = tmp_path / "large_pages.py"
    file.write_text(with_pages('        assert streams["k"].shape[2] % 64 == 0\n'))
    assert verdicts(file, "paged")["paged"].status == "ok"
    never = tmp_path / "no_pages.py"
    never.write_text(file.read_text().replace("% 64 == 0", "> 999"))
    result = verdicts(never, "paged")["paged"]
    assert result.status == "unsupported" and "AssertionError" in result.reason
