"""What may be set: every symbol of Kconfig with its type, default, range, choice and condition.

The checks here need only these, so a machine without Kconfiglib makes them too: there the menu is
read from `defaults.config`, a configuration file whose lines that begin with `#:` describe the
symbol below them.
"""

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from assay.errors import BadInput, CannotRunHere
from assay.studies import config_file
from assay.studies.config_file import Assignment

WANTED = {
    "bool": "y or n",
    "int": "a whole number such as 20, without quotes",
    "hex": "a hexadecimal number such as 0x1f, without quotes",
    "string": 'text in double quotes such as "a,b"',
}
NOTE = re.compile(
    r"#: (?P<type>\w+)( from (?P<low>\S+) to (?P<high>\S+))?( one of (?P<choice>\S+))?"
    r"( if (?P<condition>.+))?"
)


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One symbol of Kconfig."""

    symbol: str
    type: str  # bool, int, hex or string
    default: str  # as a configuration file writes it
    low: int | None = None
    high: int | None = None
    choice: tuple[str, ...] = ()  # all members of its choice
    condition: str | None = None  # what must hold for another value than the default

    @property
    def note(self) -> str:
        """The line that describes it in defaults.config."""
        bounds = "" if self.low is None else f" from {self.low} to {self.high}"
        choice = f" one of {','.join(self.choice)}" if self.choice else ""
        condition = f" if {self.condition}" if self.condition else ""
        return f"#: {self.type}{bounds}{choice}{condition}"


Menu = Mapping[str, Setting]


def read(path: Path) -> Menu:
    """The menu that `text` has written."""
    lines = config_file.read_lines(path)
    menu = {}
    for number, (note, line) in enumerate(pairwise(lines), 2):
        match = NOTE.fullmatch(note)
        assigned = match and config_file.parse_line(line, where=f"{path}:{number}")
        if match and assigned:
            menu[assigned.symbol] = _setting(assigned, match.groupdict())
    return menu


def text(menu: Menu, *, first_line: str) -> str:
    """The menu as a configuration file with all defaults."""
    lines = [f"# {first_line}"]
    for setting in menu.values():
        lines += [setting.note, config_file.line_of(setting.symbol, setting.default)]
    return "\n".join(lines) + "\n"


def check(menu: Menu, given: Sequence[Assignment]) -> None:
    """Refuse what no state of the menu allows: name, type, range, twice, two of a choice."""
    first: dict[str, Assignment] = {}
    for assignment in given:
        setting = setting_of(menu, assignment.symbol, told=assignment.told)
        if assignment.symbol in first:
            before = first[assignment.symbol].where
            raise BadInput(f"{assignment.told}: already set by {before}; remove one of the two")
        first[assignment.symbol] = assignment
        _check_value(setting, assignment)
        _check_choice(setting, assignment, first)


def setting_of(menu: Menu, symbol: str, *, told: str) -> Setting:
    """The setting called `symbol`; where there is none, the message begins with `told`."""
    if symbol not in menu:
        close = difflib.get_close_matches(symbol, menu, n=1)
        hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(menu)}"
        raise BadInput(f"{told}: there is no setting {symbol}; {hint}")
    return menu[symbol]


def check_resolved(menu: Menu, given: Sequence[Assignment], config: Mapping[str, str]) -> None:
    """Refuse an assignment that did not become the symbol's value, and say why it did not."""
    for assignment in given:
        became = config.get(assignment.symbol)
        if became == assignment.text:
            continue
        setting = menu[assignment.symbol]
        if setting.condition:
            why = f"needs {setting.condition}, which does not hold; set that too, or leave this out"
        elif setting.choice:
            why = f"one of {', '.join(setting.choice)} must be y; set the one you want to y"
        else:
            why = f"Kconfig makes it {became}"
        raise BadInput(f"{assignment.told}: {why}")


def resolve(menu: Menu, given: Sequence[Assignment]) -> dict[str, str]:
    """Every symbol's value, without Kconfiglib: the defaults, then what is given."""
    config = {symbol: setting.default for symbol, setting in menu.items()}
    for assignment in given:
        if assignment.text == "y":
            config.update(dict.fromkeys(menu[assignment.symbol].choice, "n"))
        if assignment.text != "n" or not menu[assignment.symbol].choice:
            config[assignment.symbol] = assignment.text
    for symbol in [assignment.symbol for assignment in given]:
        if config[symbol] != menu[symbol].default and not _holds(menu[symbol], config):
            config[symbol] = menu[symbol].default
    return config


def _holds(setting: Setting, config: Mapping[str, str]) -> bool:
    if setting.condition is None:
        return True
    if setting.condition not in config:
        raise CannotRunHere(
            f"whether {setting.symbol} applies ({setting.condition}) is for Kconfiglib to say; "
            "pip install kconfiglib"
        )
    return config[setting.condition] == "y"


def _check_value(setting: Setting, assignment: Assignment) -> None:
    if assignment.type != setting.type:
        wanted = WANTED[setting.type]
        raise BadInput(f"{assignment.told}: {setting.symbol} is {wanted}")
    if setting.low is None or setting.high is None:
        return
    if not setting.low <= int(assignment.text, 0) <= setting.high:
        raise BadInput(
            f"{assignment.told}: out of range; {setting.symbol} is from {setting.low} "
            f"to {setting.high}"
        )


def _check_choice(
    setting: Setting, assignment: Assignment, first: Mapping[str, Assignment]
) -> None:
    if assignment.text != "y":
        return
    for other in setting.choice:
        if other != setting.symbol and other in first and first[other].text == "y":
            raise BadInput(
                f"{assignment.told}: {first[other].where} sets {other} to y; only one of "
                f"{', '.join(setting.choice)} can be y"
            )


def _setting(assigned: Assignment, note: Mapping[str, str | None]) -> Setting:
    choice = note["choice"]
    return Setting(
        symbol=assigned.symbol,
        type=note["type"] or assigned.type,
        default=assigned.text,
        low=_number(note["low"]),
        high=_number(note["high"]),
        choice=tuple(choice.split(",")) if choice else (),
        condition=note["condition"],
    )


def _number(text: str | None) -> int | None:
    return None if text is None else int(text)
