"""What counts as a clean refusal, so as a limit, and what is left for the probes to judge."""

from assay.correctness.refusal import refusal_text


class InterpreterError(Exception):
    """As Triton's interpreter raises it: what was raised in a kernel is a string in it."""


def test_an_assertion_in_an_interpreted_kernel_is_a_refusal():
    """A public kernel casts its weights to float16 and multiplies them with float32 values. On a
    GPU the compiler refuses that; interpreted, it was called wrong in every probe."""
    error = InterpreterError(
        "InterpreterError(\"AssertionError('Both operands must be one dtype')\")"
    )
    assert refusal_text(error) == "AssertionError: Both operands must be one dtype"


def test_any_other_error_of_the_interpreter_is_no_refusal():
    error = InterpreterError("InterpreterError(\"IndexError('list index out of range')\")")
    assert refusal_text(error) is None
