"""One mistake fails many probes, and is told once."""

from assay.records.explanation import explained
from assay.records.schema import Measurement, WorkloadIdentity

TOP_LEFT = "the causal mask is aligned top-left"


def failure(probe: str, cause: str | None = None, reason: str = "out is off by 1") -> Measurement:
    case = WorkloadIdentity(name=f"case_of_{probe}", spec={}, content=None)
    return Measurement(
        metric=probe, value=2.0, unit="ratio", status="failed", reason=reason, cause=cause,
        workload=case,
    )  # fmt: skip


def test_the_cause_that_most_probes_share_comes_first_and_is_told_once():
    failures = [
        failure("stability", "scores overflow"),
        failure(
            "gradients", f"{TOP_LEFT}, or the diagonal is padded (it fails only where Sq != Sk)"
        ),
        failure("shapes", f"in some rows, {TOP_LEFT}"),
        failure("accuracy", f"{TOP_LEFT} (it fails only where Sq != Sk)"),
    ]
    first, second = map(str, explained(failures))
    assert first == (
        f"likely cause: {TOP_LEFT} (it fails only where Sq != Sk); accuracy: out is off by 1; to "
        "repeat it: --probe accuracy --workload case_of_accuracy; 2 further probes fail for the "
        "same reason: shapes, gradients"
    )
    assert second.startswith("likely cause: scores overflow; stability")


def test_a_probe_about_something_else_follows_where_values_are_wrong():
    """A top-left mask was told a second time, as a call that leaves a trace."""
    (only,) = explained([failure("purity"), failure("accuracy", TOP_LEFT)])
    assert only.shown_by.metric == "accuracy" and only.also == ("purity",)


def test_state_comes_first_for_it_explains_any_wrong_value():
    explanations = explained(
        [failure("purity", "a result is remembered"), failure("accuracy", TOP_LEFT)]
    )
    assert [explanation.shown_by.metric for explanation in explanations] == ["purity", "accuracy"]


def test_a_condition_is_no_cause_and_comes_last():
    """Inputs changed in place were told as something that fails only where Sk > 16."""
    guesses = [
        failure("shapes", "it fails only where Sk > 16"),
        failure("accuracy", "it fails only"),
    ]
    explanations = explained([*guesses, failure("purity", "an input is changed in place")])
    assert explanations[0].shown_by.metric == "purity"


def test_the_same_exception_is_one_mistake():
    raised = "raises IndexError: index 64; smallest failing case {}"
    failures = [failure(probe, reason=raised.format(probe)) for probe in ("shapes", "accuracy")]
    (only,) = explained(failures)
    assert only.also == ("shapes",)


def test_nothing_is_explained_where_nothing_fails():
    assert explained([]) == []


def test_one_error_in_two_dtypes_is_one_mistake():
    """A public kernel that raises in half precision was told three times, by the dtype that its
    error names; one that returns float32 instead, four times."""
    half, bfloat = (
        f"raises RuntimeError: expected Float but found {x}" for x in ("Half", "BFloat16")
    )
    explanations = explained([failure("shapes", reason=half), failure("causality", reason=bfloat)])
    assert [e.also for e in explanations] == [("causality",)]
    wanted = [f"out has dtype float32, wanted {x}" for x in ("float16", "bfloat16")]
    explanations = explained(
        [failure("batch", reason=wanted[0]), failure("shapes", reason=wanted[1])]
    )
    assert [e.also for e in explanations] == [("batch",)]


def test_the_size_of_errors_comes_after_a_mistake_that_is_known():
    """A kernel that mixed a thousandth of the future into v was told to declare TF32."""
    failures = [
        failure("accuracy", "errors are of the size of float16 or TF32 rounding"),
        failure("shapes", "errors are of the size of float16 or TF32 rounding"),
        failure("strides", "it fails only where Sq > 1"),
        failure("causality", "a query sees the future"),
    ]
    causes = [each.shown_by.cause for each in explained(failures)]
    assert causes[0] == "a query sees the future" and causes[-1].startswith("it fails only")


def test_the_command_names_a_probe_that_there_is():
    """A check on a workload printed --probe error_over_budget_out, which nothing understands."""
    for metric, probe in {
        "error_over_budget_out": "--probe accuracy ",
        "error_over_budget_lse": "--probe accuracy ",
        "error_over_budget_dv": "--probe gradients ",
        "gradient_of_q_alone": "--probe gradients ",
        "load": "",
        "accuracy+latency": "",
        "purity": "--probe purity ",
    }.items():
        (only,) = explained([failure(metric)])
        assert f"to repeat it: {probe}--workload case_of_{metric}" in str(only)
