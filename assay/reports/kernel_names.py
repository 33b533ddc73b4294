"""Names of GPU kernels, cut down to what a reader tells them apart by."""

import re

_LONGEST = 27


def short_kernel(source: str) -> str:
    """The first kernel that `source` names, without types, arguments and shares of time."""
    name = source.strip()
    while re.search(r"<[^<>]*>", name):
        name = re.sub(r"<[^<>]*>", "", name)
    name = re.split(r"[(,;<]| \d+(?:\.\d+)? ?%| x\d+\b|: \d", name)[0].strip()
    name = name.removeprefix("void ").split("::")[-1].strip()
    if len(name) <= _LONGEST:
        return name or source[:_LONGEST]
    half = (_LONGEST - 1) // 2
    return f"{name[:half]}…{name[-half:]}"
