"""Stands in for labml where it is not installed: what it would track goes nowhere."""


class tracker:
    """The part of its interface that attention calls."""

    @staticmethod
    def debug(name: str, value: object) -> None:
        """Track nothing."""
