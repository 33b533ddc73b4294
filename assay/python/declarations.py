"""Keywords of `assay.check` and `assay.bench` that say of a function what a file says in literals.

Both take them as `**declared`, so a name that is misspelt would arrive here and nowhere else.
"""

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from assay.errors import BadInput, unknown_name


def require_declarations(
    verb: Callable[..., Any],
    given: Iterable[Any],
    declared: Mapping[str, Any],
    *,
    known: Collection[str],
) -> None:
    """Refuse keywords that `verb` does not know, and declarations beside an implementation that is
    `given` by its name or file."""
    call = f"assay.{verb.__name__}"
    if unknown := sorted(set(declared) - set(known)):
        parameters = inspect.signature(verb).parameters.values()
        options = [each.name for each in parameters if each.kind is each.KEYWORD_ONLY]
        raise BadInput(f"{call}: {unknown_name('option', unknown[0], [*options, *known])}")
    named = [str(each) for each in given if isinstance(each, str | Path)]
    if declared and named:
        first = next(iter(declared))
        raise BadInput(
            f"{call}: {first} is said of a function, and {named[0]!r} is a name or file, which "
            f"says it itself; leave {first} out, or write it into the file"
        )
