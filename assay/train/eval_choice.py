"""An eval and its options as text, `hellaswag+file=questions.jsonl`. Needs no torch.

Every eval has the options of its file (OPTIONS) and those of SHARED.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay import plugins
from assay.errors import BadInput, CannotRunHere
from assay.train import entries

KIND = "evals"
SHARED: Mapping[str, Any] = {
    "file": "",  # a local file: questions, a text, a task
    "label": "",  # in the names of its metrics, where the eval's own name would stand twice
}
_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


@dataclass(frozen=True, kw_only=True)
class EvalChoice:
    """An eval's file, and the options that an entry gives."""

    plugin: plugins.Plugin
    given: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The entry again, its options in order."""
        return entries.written(self.plugin, self.given)

    @property
    def label(self) -> str:
        """The word after `eval.` in its metrics."""
        return self.given.get("label") or self.plugin.name

    @property
    def file(self) -> str:
        return self.given.get("file", "")

    @property
    def options(self) -> dict[str, Any]:
        """Options of its own file, with the defaults of those that are not given."""
        own = {**self.plugin.literals["OPTIONS"], **self.given}
        return {name: value for name, value in own.items() if name not in SHARED}

    def require(self) -> None:
        """Refuse what cannot be scored before a model is made or trained: no file, no package, or
        a file that is not of the eval's form."""
        if self.plugin.missing:
            raise CannotRunHere(
                f"evals/{self.plugin.name} needs {', '.join(self.plugin.missing)}, not installed "
                f"here: {plugins.how_to_install(self.plugin.missing)}"
            )
        if self.plugin.literals["NEEDS_PLACE"] and not self.file:
            raise BadInput(
                f"{self.name} has no data: give a local file, {self.plugin.name}+file=PATH"
            )
        if self.file and not Path(self.file).is_file():
            raise BadInput(f"{self.name}: there is no file {self.file}; give an existing one")
        module = plugins.load(self.plugin)
        if hasattr(module, "check"):
            module.check(self.file, **self.options)


def chosen(entry: str, folders: Sequence[Path] = ()) -> EvalChoice:
    """The choice that an entry names; BadInput where its file or an option is unknown."""
    plugin, given = entries.read(KIND, entry, SHARED, folders)
    choice = EvalChoice(plugin=plugin, given=given)
    if not _LABEL.fullmatch(choice.label):
        raise BadInput(
            f"label={choice.label} in {entry!r} is no name; wanted letters, digits, dash and "
            "underscore"
        )
    return choice


def all_chosen(names: Sequence[str], folders: Sequence[Path] = ()) -> list[EvalChoice]:
    """The choices of a list; two whose metrics would have the same names are refused."""
    choices = [chosen(name, folders) for name in names]
    labels = [choice.label for choice in choices]
    if repeated := [label for label in dict.fromkeys(labels) if labels.count(label) > 1]:
        raise BadInput(
            f"{', '.join(repeated)} stands more than once, and its records could not be told "
            "apart; give each another name, such as +label=wiki"
        )
    return choices
