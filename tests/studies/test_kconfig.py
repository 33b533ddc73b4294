"""Configuration files and --set through the door: refusals by line, overriding, defaults."""

import kconfiglib
import pytest

from assay.errors import BadInput
from assay.studies import kconfig

# What the third line of a file says, and what the refusal must say.
REFUSED = {
    "CONFIG_RUONDS=20": ["no setting 'RUONDS'", "did you mean ROUNDS?"],
    "# CONFIG_DEVICE_GPU is not set": ["no setting 'DEVICE_GPU'", "did you mean DEVICE_"],
    "CONFIG_QQQQ=1": ["no setting 'QQQQ'", "there are SCHEMA, STUDY"],
    "CONFIG_SEED=2": [":1; remove one of the two"],
    "CONFIG_SEED=1": [":1; remove one of the two"],
    "CONFIG_STUDY=5": ["STUDY is text in double quotes"],
    "CONFIG_STUDY=y": ["STUDY is text in double quotes"],
    "# CONFIG_STUDY is not set": ["STUDY is text in double quotes"],
    'CONFIG_ROUNDS="20"': ["ROUNDS is a whole number"],
    "CONFIG_ROUNDS=y": ["ROUNDS is a whole number"],
    "CONFIG_ROUNDS=0x14": ["ROUNDS is a whole number"],
    "# CONFIG_ROUNDS is not set": ["ROUNDS is a whole number"],
    'CONFIG_DEVICE_CUDA="y"': ["DEVICE_CUDA is y or n"],
    "CONFIG_DEVICE_CUDA=1": ["DEVICE_CUDA is y or n"],
    "CONFIG_ROUNDS=2": ["out of range", "from 3 to 100000"],
    "CONFIG_ROUNDS=100001": ["out of range", "from 3 to 100000"],
    "CONFIG_WARMUP=0": ["out of range", "from 1 to 100000"],
    "CONFIG_WARMUP=-5": ["out of range", "from 1 to 100000"],
    "CONFIG_SEED=2147483648": [":1; remove one of the two"],
    "CONFIG_CELL_MEMORY_PERCENT=101": ["out of range", "from 1 to 100"],
    "CONFIG_DEVICE_INDEX=3": ["needs DEVICE_CUDA, which does not hold"],
    "CONFIG_DEVICE_INDEX=64": ["out of range", "from 0 to 63"],
    "CONFIG_DEVICE_CUDA=y": [":2 sets DEVICE_CPU to y", "only one of DEVICE_AUTO, DEVICE_CPU"],
    "CONFIG_ROUNDS=20 # few": ["a comment stands on a line of its own"],
}


def refusal(path, sets=()):
    with pytest.raises(BadInput) as caught:
        kconfig.load(path, sets)
    return str(caught.value)


def written(tmp_path, text):
    path = tmp_path / "study"
    path.write_text(text)
    return path


@pytest.mark.parametrize("line", REFUSED)
def test_refused_in_a_file(line, tmp_path):
    path = written(tmp_path, f"CONFIG_SEED=1\nCONFIG_DEVICE_CPU=y\n{line}\n")
    message = refusal(path)
    assert message.startswith(f"{path}:3: ")
    assert line in message
    for part in REFUSED[line]:
        assert part in message


SETS = {
    "RUONDS=20": "did you mean ROUNDS?",
    "ROUNDS=2": "out of range; ROUNDS is from 3 to 100000",
    "ROUNDS=1_000": "ROUNDS is a whole number",
    "ROUNDS=": "ROUNDS is a whole number",
    'ROUNDS="20"': "ROUNDS is a whole number",
    "DEVICE_CPU=1": "DEVICE_CPU is y or n",
    "DEVICE_CPU=yes": "DEVICE_CPU is y or n",
    "DEVICE_INDEX=3": "needs DEVICE_CUDA, which does not hold",
    "DEVICE_AUTO=n": "one of DEVICE_AUTO, DEVICE_CPU, DEVICE_CUDA must be y",
    "SCHEMA=2": "out of range",
    "CONFIG_ROUNDS=20": "without CONFIG_",
    "rounds=20": "wanted SYMBOL=VALUE",
    "ROUNDS": "wanted SYMBOL=VALUE",
    "ROUNDS =20": "wanted SYMBOL=VALUE",
    "": "wanted SYMBOL=VALUE",
}


@pytest.mark.parametrize("entry", SETS)
def test_refused_by_set(entry):
    message = refusal(None, [entry])
    assert message.startswith(f"--set {entry}: ")
    assert SETS[entry] in message


@pytest.mark.parametrize("value", ["a\nb", "a\0b", "\udcff"])
def test_invisible_characters_in_a_set(value):
    message = refusal(None, [f"STUDY={value}"])
    assert message.startswith("--set 'STUDY=") and message.isprintable()
    assert "control characters" in message


def test_sets_that_contradict_each_other():
    twice = refusal(None, ["ROUNDS=5", "ROUNDS=6"])
    assert twice == "--set ROUNDS=6: already set by --set ROUNDS=5; remove one of the two"
    two = refusal(None, ["DEVICE_CPU=y", "DEVICE_CUDA=y"])
    assert two.startswith("--set DEVICE_CUDA=y: --set DEVICE_CPU=y sets DEVICE_CPU to y")


def test_no_member_of_a_choice(tmp_path):
    names = ["DEVICE_AUTO", "DEVICE_CPU", "DEVICE_CUDA"]
    path = written(tmp_path, "".join(f"# CONFIG_{name} is not set\n" for name in names))
    assert refusal(path).startswith(f"{path}:1: # CONFIG_DEVICE_AUTO is not set: one of DEVICE_")


def test_set_overrides_the_file(tmp_path):
    text = 'CONFIG_ROUNDS=20\nCONFIG_DEVICE_CUDA=y\nCONFIG_DEVICE_INDEX=0\nCONFIG_LENGTHS="8"\n'
    path = written(tmp_path, text)
    study = kconfig.load(path, ["ROUNDS=7", "DEVICE_CPU=y", "LENGTHS=1,63"])
    assert (study.rounds, study.device, study.lengths) == (7, "cpu", ((1, 1), (63, 63)))
    assert kconfig.load(path, ["DEVICE_CUDA=n"]).device == "auto"
    assert path.read_text() == text


def test_a_value_of_the_file_that_set_makes_meaningless(tmp_path):
    path = written(tmp_path, "CONFIG_DEVICE_CUDA=y\nCONFIG_DEVICE_INDEX=3\n")
    message = refusal(path, ["DEVICE_CPU=y"])
    assert message.startswith(f"{path}:2: CONFIG_DEVICE_INDEX=3: needs DEVICE_CUDA")


def test_set_does_not_excuse_the_file(tmp_path):
    path = written(tmp_path, "CONFIG_ROUNDS=1\n")
    assert refusal(path, ["ROUNDS=20"]).startswith(f"{path}:1: ")


@pytest.mark.parametrize("ending", [b"\n", b"\r\n"])
def test_another_schema_comes_before_everything(ending, tmp_path):
    path = tmp_path / "study"
    path.write_bytes(ending.join([b"\xff CONFIG_OLD = m", b"CONFIG_SCHEMA=7", b"CONFIG_GONE=1"]))
    message = refusal(path)
    assert message.startswith(f"{path}:2: CONFIG_SCHEMA=7: ")
    assert "written for another schema" in message and "`assay config load NAME` again" in message


def test_a_file_that_is_not_there(tmp_path):
    message = refusal(tmp_path / "absent")
    assert str(tmp_path / "absent") in message
    assert "one of those that `assay config list` names" in message
    assert "directory" in refusal(tmp_path)


def test_an_unknown_defconfig():
    with pytest.raises(BadInput, match="did you mean quickstart"):
        kconfig.defconfig("quickstrat")
    assert kconfig.defconfig("quickstart") == kconfig.defconfigs()["quickstart"]


def test_a_warning_of_kconfiglib_is_refused(tmp_path, monkeypatch):
    """A default outside its range is only a warning to Kconfiglib, which clamps it."""
    text = kconfig.KCONFIG.read_text().replace("\tdefault 30\n", "\tdefault 1\n")
    monkeypatch.setattr(kconfig, "KCONFIG", written(tmp_path, text))
    assert "clamped to 3" in refusal(None)


def test_a_broken_kconfig_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(kconfig, "KCONFIG", written(tmp_path, "config A\n\tinteger\n"))
    assert refusal(None).startswith(f"{tmp_path / 'study'} cannot be read: ")


def test_every_symbol_always_has_a_value():
    """A symbol that is only sometimes there has its condition on the prompt; see Kconfig."""
    assert all(kconfig.load(None).config.values())


def test_every_symbol_has_a_prompt_and_help_with_an_example():
    for symbol in kconfiglib.Kconfig(str(kconfig.KCONFIG)).unique_defined_syms:
        (node,) = symbol.nodes
        assert node.prompt
        assert f"Example: CONFIG_{symbol.name}=" in node.help


TYPES = """\
config SCHEMA
	int "Schema"
	default 1

config QUICK
	bool "Quick"
	default y

config MASK
	hex "Mask"
	range 0x1 0xff
	default 0x10

config DEPTH
	int "Depth" if QUICK
	range -4 4
	default -2
"""


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ("MASK=0x100", "MASK is from 1 to 255"),
        ("DEPTH=-5", "DEPTH is from -4 to 4"),
        ("MASK=16", "MASK is a hexadecimal number"),
        ("QUICK=yes", "QUICK is y or n"),
    ],
)
def test_symbols_of_every_type_are_held_to_it(tmp_path, monkeypatch, entry, reason):
    monkeypatch.setattr(kconfig, "KCONFIG", written(tmp_path, TYPES))
    assert reason in refusal(None, [entry])


def test_a_condition_that_does_not_hold_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(kconfig, "KCONFIG", written(tmp_path, TYPES))
    assert "needs QUICK, which does not hold" in refusal(None, ["DEPTH=1", "QUICK=n"])
