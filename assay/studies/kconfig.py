"""Kconfiglib behind one door: a configuration file and --set entries in, a Study out.

Kconfiglib ignores or reinterprets much of what it cannot use. So a file passes an own grammar first
(`config_file`), then the checks of `menu`; then every value given must be the value that Kconfiglib
arrives at, and Kconfiglib must have nothing to warn about.

    python -m assay.studies.kconfig        writes defaults.config again, after an edit of Kconfig
"""

import difflib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import assay
from assay.errors import BadInput, CannotRunHere
from assay.records.durable import write_atomically
from assay.studies import config_file, menu, study
from assay.studies.config_file import Assignment
from assay.studies.menu import Menu, Setting
from assay.studies.study import Study

ROOT = Path(assay.__file__).parent.parent
KCONFIG = ROOT / "Kconfig"
DEFCONFIGS = ROOT / "defconfigs"
DEFAULTS = Path(__file__).with_name("defaults.config")


def load(path: Path | None, sets: Sequence[str] = (), plugin_folders: Sequence[Path] = ()) -> Study:
    """The study that a configuration file describes, or Kconfig's defaults where `path` is None.

    `sets` are entries SYMBOL=VALUE that override the file. What cannot be used is refused as
    BadInput that names the line or the entry. Without Kconfiglib only the defaults can be loaded.
    """
    kconfig = None if path is None and _why_not() else _open_kconfig()
    settings = _menu_of(kconfig) if kconfig else menu.read(DEFAULTS)
    from_file = [] if path is None else _read(Path(path), settings)
    from_sets = [_parse_set(entry, settings) for entry in sets]
    menu.check(settings, from_file)
    menu.check(settings, from_sets)
    given = _overridden(settings, from_file, from_sets) + from_sets
    config = _resolve(kconfig, given) if kconfig else menu.resolve(settings, given)
    menu.check_resolved(settings, given, config)
    _refuse_warnings(kconfig)
    told = {assignment.symbol: assignment.told for assignment in given}
    return study.build(config, plugin_folders=plugin_folders, told=told)


def write_config(study_config: Mapping[str, str], path: Path) -> None:
    """Write a full .config with every symbol of `Study.config`; `load` reads it back."""
    write_atomically(path, config_file.file_text(study_config).encode())


def minimal(study: Study) -> str:
    """The text of a defconfig for `study`: only what differs from Kconfig's defaults."""
    settings = _menu()
    return config_file.file_text(
        {
            symbol: text
            for symbol, text in study.config.items()
            # The other members of a choice follow from the one that is y.
            if text != settings[symbol].default and not (settings[symbol].choice and text == "n")
        }
    )


def defconfigs() -> dict[str, Path]:
    """Every study in defconfigs/ by name."""
    paths = sorted(DEFCONFIGS.glob("[!.]*"))
    return {path.name: path for path in paths if path.is_file()}


def defconfig(name: str) -> Path:
    """The defconfig called `name`."""
    there = defconfigs()
    if name not in there:
        close = difflib.get_close_matches(name, there, n=1)
        hint = f"did you mean {close[0]}? " if close else ""
        raise BadInput(f"there is no defconfig {name!r}; {hint}There are: {', '.join(there)}")
    return there[name]


def defaults_text() -> str:
    """What defaults.config must hold: the menu as Kconfig has it now."""
    kconfig = _open_kconfig()
    made_by = "Kconfig's defaults; made by `python -m assay.studies.kconfig`, not by hand"
    text = menu.text(_menu_of(kconfig), first_line=made_by)
    _refuse_warnings(kconfig)
    return text


def _read(path: Path, settings: Menu) -> list[Assignment]:
    try:
        _check_schema(path, present=settings["SCHEMA"].default)
        return config_file.parse(path)
    except OSError as error:
        there = "".join(f"\n  {name}: {known}" for name, known in defconfigs().items())
        raise BadInput(
            f"cannot read {path} ({error.strerror}); give a configuration file, such as one of "
            f"the defconfigs:{there}"
        ) from error


def _check_schema(path: Path, *, present: str) -> None:
    """Before all else: a file of another schema may hold anything below its CONFIG_SCHEMA."""
    content = path.read_bytes()
    for match in re.finditer(rb"^CONFIG_SCHEMA=([0-9]+)\s*?$", content, re.MULTILINE):
        if (found := match[1].decode()) != present:
            number = content.count(b"\n", 0, match.start()) + 1
            raise BadInput(
                f"{path}:{number}: CONFIG_SCHEMA={found}: this file was written for another "
                f"schema (the present one is {present}); run `make defconfig-NAME` again, with "
                "the name of the study you want"
            )


def _parse_set(entry: str, settings: Menu) -> Assignment:
    told = f"--set {entry if entry.isprintable() else repr(entry)}"
    match = re.fullmatch(rf"({config_file.SYMBOL})=(.*)", entry, re.DOTALL)
    if not match or match[1].startswith("CONFIG_"):
        raise BadInput(f"{told}: wanted SYMBOL=VALUE, without CONFIG_, such as --set ROUNDS=20")
    symbol, value = match.groups()
    setting = menu.setting_of(settings, symbol, told=told)
    text = config_file.quote(value) if setting.type == "string" else value
    if not config_file.is_value(text):
        wanted = "text without control characters" if text != value else menu.WANTED[setting.type]
        raise BadInput(f"{told}: {symbol} is {wanted}")
    return Assignment(symbol=symbol, text=text, where=told, told=told)


def _overridden(
    settings: Menu, from_file: list[Assignment], from_sets: list[Assignment]
) -> list[Assignment]:
    """What is left of the file: neither the symbols set again nor other members of their choice."""
    again = {assignment.symbol for assignment in from_sets}
    again |= {member for symbol in again for member in settings[symbol].choice}
    return [assignment for assignment in from_file if assignment.symbol not in again]


def _why_not() -> str | None:
    """Why Kconfig cannot be read here; None where it can."""
    try:
        import kconfiglib  # noqa: F401
    except ImportError:
        return (
            "configuration files are read with Kconfiglib, which is missing: pip install kconfiglib"
        )
    return None if KCONFIG.is_file() else f"there is no {KCONFIG}; run assay from a checkout"


def _open_kconfig() -> Any:
    if reason := _why_not():
        raise CannotRunHere(reason)
    import kconfiglib

    try:
        return kconfiglib.Kconfig(str(KCONFIG), warn_to_stderr=False)
    except kconfiglib.KconfigError as error:
        raise BadInput(f"{KCONFIG} cannot be read: {error}") from error


def _menu() -> Menu:
    return menu.read(DEFAULTS) if _why_not() else _menu_of(_open_kconfig())


def _menu_of(kconfig: Any) -> Menu:
    """The menu as Kconfiglib has it, before any value is set."""
    return {symbol.name: _setting_of(symbol) for symbol in kconfig.unique_defined_syms}


def _setting_of(symbol: Any) -> Setting:
    from kconfiglib import TYPE_TO_STR, expr_str, expr_value

    ranges = [(low, high) for low, high, condition in symbol.ranges if expr_value(condition)]
    low, high = [int(end.str_value, 0) for end in ranges[0]] if ranges else (None, None)
    condition = expr_str(symbol.nodes[0].prompt[1])
    return Setting(
        symbol=symbol.name,
        type=TYPE_TO_STR[symbol.orig_type],
        default=_text_of(symbol),
        low=low,
        high=high,
        choice=tuple(member.name for member in symbol.choice.syms) if symbol.choice else (),
        condition=None if symbol.choice or condition == "y" else condition,
    )


def _text_of(symbol: Any) -> str:
    from kconfiglib import STRING

    is_string = symbol.orig_type == STRING
    return config_file.quote(symbol.str_value) if is_string else symbol.str_value


def _resolve(kconfig: Any, given: Sequence[Assignment]) -> dict[str, str]:
    """Every symbol's value, as Kconfiglib arrives at it."""
    for assignment in given:
        kconfig.syms[assignment.symbol].set_value(config_file.unquote(assignment.text))
    return {symbol.name: _text_of(symbol) for symbol in kconfig.unique_defined_syms}


def _refuse_warnings(kconfig: Any) -> None:
    if kconfig and kconfig.warnings:
        raise BadInput(f"{KCONFIG}: Kconfiglib warns: {'; '.join(kconfig.warnings)}")


if __name__ == "__main__":
    write_atomically(DEFAULTS, defaults_text().encode())
