"""assay: a workbench for attention. Importing it is light: no framework is loaded.

records = assay.load_records("results/quickstart/20261115T021048.123Z-1f3a")
verdict = assay.check(my_attention, quick=True)      # true where every probe holds
assay.assert_sound(my_attention)                     # the same, as one line of a test
with assay.capturing(model, "captures"):             # real inputs out of a running model
    model(tokens)
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from assay.captures.capturing import capturing
    from assay.correctness.verdict import assert_sound, check
    from assay.records.run import load_records

__version__ = "0.1.0"
__all__ = ["assert_sound", "capturing", "check", "load_records"]

# public name -> the module that holds it, imported when the name is first used
_HOMES = {
    "load_records": "assay.records.run",
    "check": "assay.correctness.verdict",
    "assert_sound": "assay.correctness.verdict",
    "capturing": "assay.captures.capturing",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'assay' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
