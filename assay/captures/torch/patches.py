"""Functions that are replaced while something is captured, and put back behind the last capture."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from assay.captures.torch.taking import Taking


class Patch:
    """One function, replaced wherever a capture says that it lies.

    `takings` are the captures that are on: the replacement asks them.
    """

    def __init__(self, replacement: Callable) -> None:
        self.takings: list[Taking] = []
        self._replacement = replacement
        self._places: list[tuple[Any, str, Any]] = []

    @property
    def original(self) -> Callable:
        """What was replaced first."""
        return self._places[0][2]

    def add(self, taking: "Taking", places: Iterable[tuple[Any, str]]) -> None:
        """Replace what is called `name` in its owner, for each of (owner, name)."""
        self.takings.append(taking)
        for owner, name in places:
            found = getattr(owner, name)
            if found is not self._replacement:
                self._places.append((owner, name, found))
                setattr(owner, name, self._replacement)

    def remove(self, taking: "Taking") -> None:
        """Undo `add`; what another capture still needs stays."""
        if taking in self.takings:
            self.takings.remove(taking)
        if not self.takings:
            while self._places:
                owner, name, found = self._places.pop()
                setattr(owner, name, found)
