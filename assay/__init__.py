"""assay: a workbench for attention. Importing it is light: no framework is loaded.

verdict = assay.check(my_attention, quick=True)      # true where every probe holds
assay.assert_sound(my_attention)                     # the same, as one line of a test
speeds = assay.bench(my_attention, against="sdpa")   # a study of its own, beside a baseline
assay.compare(earlier, speeds)                       # is something slower, or wrong, now?
records = assay.load_records("results/quickstart")   # .to_pandas(), .to_polars(), .to_arrow()
rows = assay.query("SELECT subject, value FROM records WHERE metric = 'latency_ms'")
with assay.capturing(model, "captures"):             # real inputs out of a running model
    model(tokens)
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from assay.captures.capturing import capturing
    from assay.python.asking import query
    from assay.python.benching import bench
    from assay.python.checking import assert_sound, check
    from assay.python.comparing import compare
    from assay.python.loading import load_records

__version__ = "0.1.0"
__all__ = ["assert_sound", "bench", "capturing", "check", "compare", "load_records", "query"]

# public name -> the module that holds it, imported when the name is first used
_HOMES = {
    "assert_sound": "assay.python.checking",
    "bench": "assay.python.benching",
    "capturing": "assay.captures.capturing",
    "check": "assay.python.checking",
    "compare": "assay.python.comparing",
    "load_records": "assay.python.loading",
    "query": "assay.python.asking",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'assay' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
