"""The grammar of configuration files: what passes, and that all else is refused by line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.errors import BadInput
from assay.studies import config_file

ACCEPTED = {
    "CONFIG_A=y": ("A", "y", "bool"),
    "CONFIG_A=n": ("A", "n", "bool"),
    "# CONFIG_A is not set": ("A", "n", "bool"),
    "CONFIG_A1_B=20": ("A1_B", "20", "int"),
    "CONFIG_A=0": ("A", "0", "int"),
    "CONFIG_A=-3": ("A", "-3", "int"),
    "CONFIG_A=0x1F": ("A", "0x1F", "hex"),
    'CONFIG_A=""': ("A", '""', "string"),
    'CONFIG_A="y"': ("A", '"y"', "string"),
    'CONFIG_A="a # b"': ("A", '"a # b"', "string"),
    r'CONFIG_A="a \"b\" \\ c"': ("A", r'"a \"b\" \\ c"', "string"),
    'CONFIG_A="größer = 文"': ("A", '"größer = 文"', "string"),
}

REFUSED = {
    "CONFIG_A=y # why": "a comment stands on a line of its own",
    'CONFIG_A="a" # why': "a comment stands on a line of its own",
    "CONFIG_A=5 ": "spaces at the end",
    "CONFIG_A =5": "spaces before the name or around =",
    "CONFIG_A= 5": "spaces before the name or around =",
    " CONFIG_A=5": "spaces before the name or around =",
    " # a comment": "spaces before the name or around =",
    "CONFIG_a=5": "neither an assignment nor a comment",
    "config_A=5": "neither an assignment nor a comment",
    "A=5": "neither an assignment nor a comment",
    "CONFIG_=5": "neither an assignment nor a comment",
    "CONFIG_A": "neither an assignment nor a comment",
    "CONFIG_A=": "text stands in double quotes",
    "CONFIG_A=1_000": "digits alone",
    "CONFIG_A=007": "no leading zeros",
    "CONFIG_A=-0": "digits alone",
    "CONFIG_A=+5": "digits alone",
    "CONFIG_A=1e3": "digits alone",
    "CONFIG_A=1.5": "digits alone",
    "CONFIG_A=0x": "digits alone",
    "CONFIG_A=٣": "text stands in double quotes",
    "CONFIG_A=" + "9" * 5000: "18 at most",
    "CONFIG_A=m": "a switch is y or n",
    "CONFIG_A=Y": "a switch is y or n",
    "CONFIG_A=yes": "text stands in double quotes",
    "CONFIG_A=nope": "text stands in double quotes",
    "CONFIG_A=eager,sdpa": "text stands in double quotes",
    "CONFIG_A='a'": "text stands in double quotes",
    'CONFIG_A="a': "the quotes do not match",
    'CONFIG_A="a"b"': "the quotes do not match",
    r'CONFIG_A="a\"': "the quotes do not match",
    r'CONFIG_A="a\n"': "a backslash is not written as",
    'CONFIG_A="a\tb"': "invisible character",
    'CONFIG_A="a\u2028b"': "invisible character",
    "\ufeffCONFIG_A=5": "invisible character",
    "#CONFIG_A is not set": "wanted exactly: # CONFIG_NAME is not set",
    "# CONFIG_A is not set ": "wanted exactly: # CONFIG_NAME is not set",
    "# config_a is not set": "wanted exactly: # CONFIG_NAME is not set",
}

NOT_TEXT = {
    b"CONFIG_A=5\r\n": "carriage return",
    b"CONFIG_A=\xff\n": "not UTF-8",
    b'CONFIG_A="\0"\n': "NUL byte",
    "CONFIG_A=5\n".encode("utf-16"): "not UTF-8",
}


@pytest.mark.parametrize("line", ACCEPTED)
def test_accepted(line):
    assignment = config_file.parse_line(line, where="f:1")
    assert (assignment.symbol, assignment.text, assignment.type) == ACCEPTED[line]
    assert assignment.prefix == f"f:1: {line}"


@pytest.mark.parametrize("line", ["", "  \t", "#", "# CONFIG_A=y", "#: int", "## menu"])
def test_blank_and_comment_lines_assign_nothing(line):
    assert config_file.parse_line(line, where="f:1") is None


@pytest.mark.parametrize("line", REFUSED)
def test_refused(line, tmp_path):
    path = tmp_path / "study"
    path.write_text(f"# first\n\n{line}\nCONFIG_B=y\n", encoding="utf-8")
    with pytest.raises(BadInput) as caught:
        config_file.parse(path)
    message = str(caught.value)
    assert message.startswith(f"{path}:3: ")
    assert REFUSED[line] in message
    assert "wanted" in message
    assert len(message) < 500 + len(str(path))


@pytest.mark.parametrize("content", NOT_TEXT)
def test_bytes_that_are_not_plain_text(content, tmp_path):
    path = tmp_path / "study"
    path.write_bytes(b"# first\n" + content)
    with pytest.raises(BadInput) as caught:
        config_file.parse(path)
    assert str(caught.value).startswith(f"{path}:2: ")
    assert NOT_TEXT[content] in str(caught.value)


def test_last_line_needs_no_line_end(tmp_path):
    path = tmp_path / "study"
    path.write_text("CONFIG_A=1\nCONFIG_B=2")
    assert [(a.symbol, a.text) for a in config_file.parse(path)] == [("A", "1"), ("B", "2")]


@pytest.mark.parametrize("content", ["", "\n", "# only a comment\n"])
def test_a_file_without_assignments(content, tmp_path):
    path = tmp_path / "study"
    path.write_text(content)
    assert config_file.parse(path) == []


@given(st.text(st.characters(exclude_categories=["C", "Z"], include_characters=' "\\#=')))
def test_text_survives_quoting(value):
    line = config_file.line_of("A", config_file.quote(value))
    assignment = config_file.parse_line(line, where="f:1")
    assert config_file.unquote(assignment.text) == value


@given(st.text())
def test_any_line_is_read_or_refused(line):
    try:
        assignment = config_file.parse_line(line, where="f:1")
    except BadInput as error:
        assert str(error).startswith("f:1: ")
    else:
        if assignment:
            same = {config_file.line_of(assignment.symbol, assignment.text)}
            assert line in same | {f"CONFIG_{assignment.symbol}={assignment.text}"}
