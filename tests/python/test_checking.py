"""`assay.check` of functions that lie in no file of their own: the verdict as a person sees it."""

import subprocess
import sys
from pathlib import Path

import pytest

import assay
from assay.attention.sequence import eager
from assay.errors import BadInput

WRONG = Path(__file__).parents[2] / "docs" / "examples" / "top_left.py"


def test_a_verdict_is_a_table_of_its_probes():
    verdict = assay.check(eager.attention, quick=True, probes=["shapes", "batch"])
    assert verdict and len(verdict) == len(verdict.measurements) and len(verdict.probes) == 2
    frame = verdict.to_pandas()
    assert set(frame["probe"]) == {"shapes", "batch"} and set(frame["status"]) == {"ok"}
    assert list(verdict.to_arrow()["cases"].to_pylist()) == [len(m.samples) for m in verdict.probes]
    cases = sum(len(each.samples) for each in verdict)
    answer = f"PASS  attention: 2 probes, {cases} of {cases} cases"
    assert repr(verdict).splitlines()[0] == str(verdict.answer).splitlines()[0] == answer
    assert "| shapes | ok |" in verdict.to_markdown()
    page = verdict._repr_html_()
    assert page.count("<table") == page.count("data:image/png;base64,") == 1


def test_a_failure_is_drawn_and_its_cause_comes_first():
    verdict = assay.check(WRONG, quick=True, probes=["shapes"])
    assert not verdict and str(verdict.answer).startswith("FAIL  top_left: the causal mask is")
    (line,) = verdict.answer.lines
    case = verdict.failures[0].workload.name
    assert f'assay.check({str(WRONG)!r}, probes=["shapes"], workloads=["{case}"])' in line
    page = verdict._repr_html_()
    assert page.index("top-left") < page.index("<table") < page.index("data:image/png")
    with pytest.raises(AssertionError, match="top-left"):
        assay.assert_sound(WRONG, probes=["shapes"])


def test_a_function_of_a_prompt_is_checked():
    """There is no file and no source to read: python -c."""
    code = (
        "import assay, torch\n"
        "def mine(q, k, v, *, causal, scale):\n"
        "    return torch.nn.functional.scaled_dot_product_attention(q, k, v, scale=scale)\n"
        "verdict = assay.check(mine, quick=True, probes=['batch'])\n"
        "print(bool(verdict), verdict.name)\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ended.stdout.split()[-1] == "mine", ended.stderr


def test_names_may_be_a_text_with_commas_and_dtypes_short():
    verdict = assay.check(eager.attention, quick=True, probes="batch,purity", dtypes="fp32")
    assert {m.metric for m in verdict.probes} == {"batch", "purity"} and verdict


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"device": "tpu"}, "no device 'tpu' here; there are cpu"),
        ({"layouts": "BSHD"}, "no option 'layouts'.*layout"),
        ({"limits": {"lengths": "128"}}, "no option 'limits'; there are quick, "),
        ({"cases": -1}, "cases and seconds above 0"),
        ({"workload": "b1_h1_s8_d16"}, "no option 'workload'; did you mean workloads"),
        ({"budget_s": 0}, "cases and seconds above 0"),
        ({"budget_s": -5.0}, "cases and seconds above 0"),
        ({"probes": "shape"}, "no correctness probe 'shape'"),
        ({"dtypes": "float99"}, "float99"),
    ],
)
def test_a_wrong_option_is_refused_and_no_kernel_is_blamed(options, words):
    with pytest.raises((ValueError, RuntimeError), match=words):
        assay.check(eager.attention, quick=True, **options)


def test_a_call_that_does_not_fit_is_refused_in_one_line(capfd):
    """torch's own function has no `causal`: 129 tracebacks in 2,932 lines came before that."""
    sdpa = pytest.importorskip("torch").nn.functional.scaled_dot_product_attention
    for function in (sdpa, lambda q, k, v, is_causal, scale: v):
        for verb in (assay.check, assay.assert_sound):
            with pytest.raises(BadInput, match="causal'; write a function around it") as refused:
                verb(function)
            assert len(str(refused.value).splitlines()) == 1
    assert capfd.readouterr().err == ""


def test_a_bug_that_divides_by_zero_warns_nobody(recwarn):
    """A cause was looked for among wrong backward passes, and NumPy's warning reached the user."""

    def doubled(q, k, v, *, causal, scale):
        out = eager.attention(q, k, v, causal=causal, scale=scale)
        return out + (q - q.detach()) * 0.5

    assert not assay.check(doubled, quick=True, probes="gradients", dtypes="float32")
    assert not [w for w in recwarn if issubclass(w.category, RuntimeWarning)]


def test_a_file_says_itself_what_it_is():
    """A layout beside a file was ignored."""
    with pytest.raises(ValueError, match=r"layout is said of a function, and .*top_left.py'"):
        assay.check(WRONG, quick=True, layout="BSHD")
