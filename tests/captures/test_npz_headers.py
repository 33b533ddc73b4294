"""Headers of arrays in an npz file, whatever they claim, are refused with a message."""

import io
import struct
import zipfile

import pytest

from assay.captures import exchange
from assay.captures.foreign import ForeignSettings, read_foreign
from assay.captures.inspect.inspection import file_summary
from assay.errors import BadInput


def with_shape(shape: str) -> str:
    return f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}"


HEADERS = {
    "cut short": "{",
    "no dictionary": "[]",
    "nested": "(" * 5000,
    "objects": "{'descr': '|O', 'fortran_order': False, 'shape': (2,), }",
    "no dtype": "{'descr': 5, 'fortran_order': False, 'shape': (2,), }",
    "a negative length": with_shape("(-1,)"),
    "a length that is no number": with_shape("('a',)"),
    "a fraction of a length": with_shape("(1.5,)"),
    "more than there is": with_shape("(1, 2, 3, 4)"),
    "more than fits in memory": with_shape("(99999999999999,)"),
    "more than fits in a register": with_shape("(99999999999999999999,)"),
    "a product that overflows": with_shape("(4294967296, 4294967296)"),
}


@pytest.mark.parametrize(
    "read",
    [
        lambda path: read_foreign(path, run="run", step=0, settings=ForeignSettings()),
        exchange.read_exported,
        file_summary,
    ],
    ids=["foreign", "exported", "inspected"],
)
@pytest.mark.parametrize("name", HEADERS)
def test_a_header_that_lies_is_refused(tmp_path, name, read):
    text = HEADERS[name].encode()
    array = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + bytes(64)
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as file:
        for entry in "qkv":
            file.writestr(f"{entry}.npy", array)
    path = tmp_path / "call.npz"
    path.write_bytes(content.getvalue())
    with pytest.raises(BadInput, match=r"call.npz cannot be read as npz"):
        read(path)
