"""What the menu settles without Kconfiglib, on symbols of kinds that Kconfig may grow."""

import pytest

from assay.errors import BadInput, CannotRunHere
from assay.studies import menu
from assay.studies.config_file import parse_line
from assay.studies.menu import Setting

SETTINGS = [
    Setting(symbol="QUICK", type="bool", default="y"),
    Setting(symbol="MASK", type="hex", default="0x10", low=1, high=255),
    Setting(symbol="DEPTH", type="int", default="-2", low=-4, high=4, condition="QUICK"),
    Setting(symbol="NOTE", type="string", default='"a \\"b\\""', condition="QUICK && DEPTH = 1"),
]
MENU = {setting.symbol: setting for setting in SETTINGS}


def resolved(*lines):
    given = [parse_line(line, where="f:1") for line in lines]
    menu.check(MENU, given)
    config = menu.resolve(MENU, given)
    menu.check_resolved(MENU, given, config)
    return config


def test_written_and_read_back(tmp_path):
    path = tmp_path / "defaults.config"
    path.write_text(menu.text(MENU, first_line="made by a test"))
    assert menu.read(path) == MENU


def test_a_switch_outside_a_choice():
    assert resolved()["QUICK"] == "y"
    assert resolved("# CONFIG_QUICK is not set")["QUICK"] == "n"


def test_ranges_of_hexadecimal_and_negative_numbers():
    assert resolved("CONFIG_MASK=0xff", "CONFIG_DEPTH=-4")["DEPTH"] == "-4"
    with pytest.raises(BadInput, match="MASK is from 1 to 255"):
        resolved("CONFIG_MASK=0x100")
    with pytest.raises(BadInput, match="DEPTH is from -4 to 4"):
        resolved("CONFIG_DEPTH=-5")


def test_a_condition_on_a_switch():
    with pytest.raises(BadInput, match="needs QUICK, which does not hold"):
        resolved("CONFIG_DEPTH=1", "CONFIG_QUICK=n")


def test_a_condition_that_only_kconfiglib_can_judge():
    with pytest.raises(CannotRunHere, match=r"NOTE applies .* pip install kconfiglib"):
        resolved('CONFIG_NOTE="c"')
    assert resolved('CONFIG_NOTE="a \\"b\\""')["NOTE"] == '"a \\"b\\""'
