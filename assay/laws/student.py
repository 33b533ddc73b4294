"""How many standard errors make a 95 % interval: the 0.975 quantile of Student's t."""

_NORMAL = 1.959964
# By degrees of freedom, from 1.
_TABLE = (
    12.706205, 4.302653, 3.182446, 2.776445, 2.570582, 2.446912, 2.364624, 2.306004, 2.262157,
    2.228139, 2.200985, 2.178813, 2.160369, 2.144787, 2.131450, 2.119905, 2.109816, 2.100922,
    2.093024, 2.085963,
)  # fmt: skip


def quantile_975(freedom: int) -> float:
    """For at least one degree of freedom; beyond the table by the expansion of Fisher and Cornish
    (1960), which is right to five decimals there."""
    if freedom < 1:
        raise ValueError(f"{freedom} degrees of freedom; an interval needs at least one")
    if freedom <= len(_TABLE):
        return _TABLE[freedom - 1]
    z = _NORMAL
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / freedom + second / freedom**2 + third / freedom**3
