"""Subjects, which are checked and timed: one module for each kind, all with one contract.

`contract.py` says what a subject is, `outcome.py` how work on one ends. The module `<kind>` (such
as `sequence`, `layers` or `decode`, the plugin folder its implementations lie in) has `make(spec)`,
the inputs of a workload, and `bind(name, inputs, ...)`, an implementation bound to them on a
device.
"""

import importlib
from pathlib import Path
from types import ModuleType


def kind_named(kind: str) -> ModuleType:
    """The module that makes inputs for a kind of subject and binds implementations to them."""
    return importlib.import_module(f"assay.subjects.{kind}")


def plugin_name(kind: str, subject: str) -> str:
    """The file that a subject is of: gemma:cudnn is the layer gemma with one of its cores,
    int4:dequantised the layout int4 read by the decode kernel dequantised."""
    first, colon, second = subject.partition(":")
    return second if colon and kind == "decode" else first


def file_of(kind: str) -> Path:
    """The file of that module, for fingerprints: it is imported by its name."""
    folder = Path(__file__).parent
    module = folder / f"{kind}.py"
    return module if module.is_file() else folder / kind / "__init__.py"
