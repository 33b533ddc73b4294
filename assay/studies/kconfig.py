"""Kconfiglib behind one door: a configuration file and --set entries in, a Study out.

Kconfiglib ignores or reinterprets much of what it cannot use. So a file passes an own grammar first
(`config_file`), then the checks of names, types, ranges and choices here; then every value given
must be the value that Kconfiglib arrives at, and Kconfiglib must have nothing to warn about.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from assay.errors import BadInput, CannotRunHere, unknown_name
from assay.installation import own_file
from assay.records.durable import write_atomically
from assay.studies import config_file, study
from assay.studies.config_file import Assignment, FlagSetting
from assay.studies.study import Study
from assay.workloads.spec import full_dtypes

try:
    import kconfiglib
    from kconfiglib import Kconfig, Symbol
except ModuleNotFoundError as error:
    raise CannotRunHere("settings are read with Kconfiglib: pip install kconfiglib") from error

KCONFIG = own_file("Kconfig")
DEFCONFIGS = own_file("defconfigs")
_WANTED = {
    "bool": "y or n",
    "int": "a whole number such as 20, without quotes",
    "hex": "a hexadecimal number such as 0x1f, without quotes",
    "string": 'text in double quotes such as "a,b"',
}


def load(path: Path | None, sets: Sequence[str] = (), plugin_folders: Sequence[Path] = ()) -> Study:
    """Return the study of a configuration file, or of Kconfig's defaults where `path` is None.

    `sets` are entries SYMBOL=VALUE that override the file. What cannot be used is refused as
    BadInput that names the line or the entry.
    """
    kconfig = _open_kconfig()
    return _resolved(
        kconfig, [] if path is None else _read(Path(path), kconfig), sets, plugin_folders
    )


def changed(
    config: Mapping[str, str], sets: Sequence[str], plugin_folders: Sequence[Path] = ()
) -> Study:
    """The study of another's `config`, every symbol, with entries SYMBOL=VALUE over it."""
    given = [
        Assignment(symbol=name, text=text, where="the run", prefix=f"the run has {name}={text}")
        for name, text in config.items()
    ]
    return _resolved(_open_kconfig(), given, sets, plugin_folders)


def _resolved(
    kconfig: Kconfig,
    from_file: list[Assignment],
    sets: Sequence[str],
    plugin_folders: Sequence[Path],
) -> Study:
    from_sets = [_parse_set(entry, kconfig) for entry in sets]
    _check(kconfig, from_file)
    _check(kconfig, from_sets)
    assignments = _not_overridden(kconfig, from_file, from_sets) + from_sets
    for assignment in assignments:
        kconfig.syms[assignment.symbol].set_value(config_file.unquote(assignment.text))
    config = {symbol.name: _text_of(symbol) for symbol in kconfig.unique_defined_syms}
    _check_resolved(kconfig, assignments, config)
    if kconfig.warnings:
        raise BadInput(f"{KCONFIG}: Kconfiglib warns: {'; '.join(kconfig.warnings)}")
    given = {assignment.symbol: assignment for assignment in assignments}
    return study.build(config, plugin_folders=plugin_folders, given=given)


def write_config(study_config: Mapping[str, str], path: Path) -> None:
    """Write a full .config with every symbol of `Study.config`; `load` reads it back."""
    write_atomically(path, config_file.file_text(study_config).encode())


def minimal(study: Study) -> str:
    """The text of a defconfig for `study`: only what differs from Kconfig's defaults."""
    kconfig = _open_kconfig()
    changed = {
        symbol: text
        for symbol, text in study.config.items()
        if text != _text_of(kconfig.syms[symbol])
        # The other members of a choice follow from the one that is y.
        and not (kconfig.syms[symbol].choice and text == "n")
    }
    return config_file.file_text(changed)


def defconfigs() -> dict[str, Path]:
    """Every study in defconfigs/ by name."""
    paths = sorted(DEFCONFIGS.glob("[!.]*"))
    return {path.name: path for path in paths if path.is_file()}


def defconfig(name: str, *, wanted: str = "defconfig") -> Path:
    """The defconfig called `name`, or an error that says what was `wanted`."""
    known = defconfigs()
    if name not in known:
        raise BadInput(f"{unknown_name(wanted, name, known)} `assay config list` names all")
    return known[name]


def _open_kconfig() -> Kconfig:
    if not KCONFIG.is_file():
        raise CannotRunHere(
            f"there is no {KCONFIG}; run assay from a checkout, or install a wheel of it"
        )
    try:
        return Kconfig(str(KCONFIG), warn_to_stderr=False)
    except kconfiglib.KconfigError as error:
        raise BadInput(f"{KCONFIG} cannot be read: {error}") from error


def _read(path: Path, kconfig: Kconfig) -> list[Assignment]:
    try:
        _check_schema(path, present=kconfig.syms["SCHEMA"].str_value)
        return config_file.parse(path)
    except OSError as error:
        raise BadInput(
            f"cannot read {path} ({error.strerror}); give a configuration file, or the name of one "
            "of those that `assay config list` names"
        ) from error


def _check_schema(path: Path, *, present: str) -> None:
    """Before all else: a file of another schema may hold anything below its CONFIG_SCHEMA."""
    content = path.read_bytes()
    for match in re.finditer(rb"^CONFIG_SCHEMA=([0-9]+)\s*?$", content, re.MULTILINE):
        if (schema := match[1].decode()) != present:
            number = content.count(b"\n", 0, match.start()) + 1
            raise BadInput(
                f"{path}:{number}: CONFIG_SCHEMA={schema}: this file was written for another "
                f"schema (the present one is {present}); run `assay config load NAME` again, with "
                "the name of the study you want"
            )


def _parse_set(entry: str, kconfig: Kconfig) -> Assignment:
    typed = entry.typed if isinstance(entry, FlagSetting) else (("--set", entry),)
    prefix = config_file.as_typed(typed)
    match = re.fullmatch(rf"({config_file.SYMBOL})=(.*)", entry, re.DOTALL)
    if not match or match[1].startswith("CONFIG_"):
        raise BadInput(f"{prefix}: wanted SYMBOL=VALUE, without CONFIG_, such as --set ROUNDS=20")
    name, value = match.groups()
    kind = _type_of(_symbol_named(kconfig, name, prefix=prefix))
    value = full_dtypes(value) if "DTYPE" in name else value
    text = config_file.quote(value) if kind == "string" else value
    if not config_file.is_value(text):
        wanted = "text without control characters" if text != value else _WANTED[kind]
        raise BadInput(f"{prefix}: {name} is {wanted}")
    return Assignment(symbol=name, text=text, where=prefix, prefix=prefix, typed=typed)


def _check(kconfig: Kconfig, assignments: Sequence[Assignment]) -> None:
    """Refuse what no state of the menu allows: name, type, range, twice, two of a choice."""
    first: dict[str, Assignment] = {}
    for assignment in assignments:
        symbol = _symbol_named(kconfig, assignment.symbol, prefix=assignment.prefix)
        if symbol.name in first:
            before = first[symbol.name].where
            raise BadInput(f"{assignment.prefix}: already set by {before}; remove one of the two")
        first[symbol.name] = assignment
        _check_value(symbol, assignment)
        _check_choice(symbol, assignment, first)


def _symbol_named(kconfig: Kconfig, name: str, *, prefix: str) -> Symbol:
    known = [symbol.name for symbol in kconfig.unique_defined_syms]
    if name not in known:
        raise BadInput(f"{prefix}: {unknown_name('setting', name, known)}")
    return kconfig.syms[name]


def _check_value(symbol: Symbol, assignment: Assignment) -> None:
    if assignment.type != _type_of(symbol):
        raise BadInput(f"{assignment.prefix}: {symbol.name} is {_WANTED[_type_of(symbol)]}")
    for low, high, condition in symbol.ranges:
        ends = [int(end.str_value, 0) for end in (low, high)]
        inside = ends[0] <= int(assignment.text, 0) <= ends[1]
        if kconfiglib.expr_value(condition) and not inside:
            raise BadInput(
                f"{assignment.prefix}: out of range; {symbol.name} is from {ends[0]} to {ends[1]}"
            )


def _check_choice(symbol: Symbol, assignment: Assignment, first: Mapping[str, Assignment]) -> None:
    if assignment.text != "y":
        return
    for other in _choice_of(symbol):
        if other != symbol.name and other in first and first[other].text == "y":
            raise BadInput(
                f"{assignment.prefix}: {first[other].where} sets {other} to y; only one of "
                f"{', '.join(_choice_of(symbol))} can be y"
            )


def _not_overridden(
    kconfig: Kconfig, from_file: list[Assignment], from_sets: list[Assignment]
) -> list[Assignment]:
    """Return the file's assignments without symbols set again and others of their choice."""
    again = {assignment.symbol for assignment in from_sets}
    again |= {member for name in again for member in _choice_of(kconfig.syms[name])}
    return [assignment for assignment in from_file if assignment.symbol not in again]


def _check_resolved(
    kconfig: Kconfig, assignments: Sequence[Assignment], config: Mapping[str, str]
) -> None:
    """Refuse an assignment that did not become the symbol's value, and say why it did not."""
    for assignment in assignments:
        became, symbol = config[assignment.symbol], kconfig.syms[assignment.symbol]
        if became == assignment.text:
            continue
        condition = kconfiglib.expr_str(symbol.nodes[0].prompt[1])
        if symbol.choice:
            members = ", ".join(_choice_of(symbol))
            why = f"one of {members} must be y; set the one you want to y"
        elif condition != "y":
            why = f"needs {condition}, which does not hold; set that too, or leave this out"
        else:
            why = f"Kconfig makes it {became}"
        raise BadInput(f"{assignment.prefix}: {why}")


def _choice_of(symbol: Symbol) -> tuple[str, ...]:
    """All members of a symbol's choice; empty where it is in none."""
    return tuple(member.name for member in symbol.choice.syms) if symbol.choice else ()


def _type_of(symbol: Symbol) -> str:
    return kconfiglib.TYPE_TO_STR[symbol.orig_type]


def _text_of(symbol: Symbol) -> str:
    """A symbol's value as a configuration file writes it."""
    is_string = symbol.orig_type == kconfiglib.STRING
    return config_file.quote(symbol.str_value) if is_string else symbol.str_value
