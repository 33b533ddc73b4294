"""The text that is used where none is given."""

import hashlib
import platform

import pytest

from assay.errors import BadInput
from assay.models.pretrained import sample_text


def test_it_is_what_help_prints_and_long_enough_for_a_long_context():
    sample = sample_text.read()
    assert len(sample.text) > 400_000
    assert "Assert statements are a convenient way to insert debugging assertions" in sample.text
    assert platform.python_version() in sample.source


def test_the_digest_is_of_the_text_that_is_given():
    whole, start = sample_text.read(), sample_text.read(1000)
    assert whole == sample_text.read()
    assert start.text == whole.text[:1000]
    assert start.digest == "sha256:" + hashlib.sha256(start.text.encode()).hexdigest()
    assert start.digest != whole.digest


@pytest.mark.parametrize("characters", [0, -1, 10**9])
def test_more_than_there_is_is_refused(characters):
    with pytest.raises(BadInput, match="--text FILE"):
        sample_text.read(characters)
