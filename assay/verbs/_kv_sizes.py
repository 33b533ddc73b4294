"""Lengths and sizes as the flags of `assay kv` have them."""


def lengths_of(text: str) -> list[int]:
    """Numbers of tokens, as --length has them."""
    from assay.errors import BadInput

    try:
        lengths = [int(word) for word in text.split(",")]
    except ValueError:
        lengths = []
    if not lengths or min(lengths) < 1:
        raise BadInput(f"--length is {text!r}; wanted whole numbers from 1 on, comma between")
    return lengths


def bytes_of(text: str, flag: str) -> int:
    """A number of bytes with its unit, as `flag` has it."""
    import re

    from assay.errors import BadInput

    matched = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]i?B|B)?", text.strip(), re.IGNORECASE)
    if not matched:
        raise BadInput(
            f"{flag} is {text!r}; wanted a number of bytes, such as 24GiB or 512MB (units B, "
            "KB, KiB, MB, MiB, GB, GiB, TB, TiB)"
        )
    unit = (matched[2] or "B").upper().replace("I", "i")
    base = 1024 if "i" in unit else 1000
    return int(float(matched[1]) * base ** (" KMGT".index(unit[0]) if unit != "B" else 0))
