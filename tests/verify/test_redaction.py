"""Texts with paths, names and secrets in them, as records could hold them."""

import getpass
import socket

import pytest

from assay.verify.publish import redaction
from assay.verify.publish.redaction import redacted

HEX = "0123456789abcdef" * 2 + "01234567"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("failed in /srv/ann/src/kernel.py line 3", "failed in …/kernel.py line 3"),
        ("4,096 GB/s and tokens/s, 3/4 of it", "4,096 GB/s and tokens/s, 3/4 of it"),
        ("assay/attention/budget.py", "assay/attention/budget.py"),
        ("https://example.org/a/b", "https://example.org/a/b"),
        ("--out /srv/s", "--out …/s"),
        ("PATH=/usr/bin:/srv/ann/bin", "PATH=…/bin:…/bin"),
        ("file:///srv/ann/x.txt", "…/x.txt"),
        ("HOME=/home/ann", "HOME=…/<user>"),
        ("HOME=/Users/ann/", "HOME=…/<user>"),
        (r"in C:\Users\ann\kernel.py", r"in …\kernel.py"),
        ("ann.lee@example.org wrote", "<e-mail> wrote"),
        ("https://ann:pass@example.org/x", "https://<secret>@example.org/x"),
        ("jax@0.4 and a@b", "jax@0.4 and a@b"),
    ],
)
def test_paths_and_names_are_redacted(text, wanted):
    assert redacted({"a": [text]}) == {"a": [wanted]}


@pytest.mark.parametrize(
    "secret",
    [
        "hf_" + "aB3" * 11,
        "sk-" + "proj-" + "x9" * 20,
        "ghp_" + "a1" * 18,
        "github_pat_" + "11AA_" * 8,
        "AKIA" + "ABCD1234" * 2,
        "wandb_v1_" + "Ab3_" * 9,
    ],
)
def test_secrets_of_known_forms_are_redacted(secret):
    assert redacted(f"--token={secret} --x") == "--token=<secret> --x"
    assert redacted({"env": {"TOKEN": secret}}) == {"env": {"TOKEN": "<secret>"}}


def test_keys_that_only_their_neighbour_gives_away():
    assert redacted(f"WANDB_API_KEY={HEX}") == "WANDB_API_KEY=<secret>"
    assert redacted({"wandb_api_key": HEX}) == {"wandb_api_key": "<secret>"}
    assert redacted("Authorization: Bearer abcdef.123456") == "Authorization: Bearer <secret>"
    assert redacted({"commit": HEX}) == {"commit": HEX}  # a digest is no secret
    assert redacted(f"commit {HEX}, keys and values") == f"commit {HEX}, keys and values"


def test_names_of_this_place(monkeypatch):
    monkeypatch.setattr(getpass, "getuser", lambda: "ann")
    monkeypatch.setattr(socket, "gethostname", lambda: "box-1234")
    redaction._names_here.cache_clear()
    try:
        assert (
            redacted("runs/ann/a.py on box-1234 by ~ann") == "runs/<user>/a.py on <host> by ~<user>"
        )
        assert redacted("annotated/ann-x.py, an ann") == "annotated/ann-x.py, an ann"
        assert redacted("/srv/people/ann") == "…/<user>"
    finally:
        redaction._names_here.cache_clear()


def test_keys_that_become_the_same_are_all_kept():
    assert redacted({"/a/b/f": 1, "/c/d/f": 2}) == {"…/f": 1, "…/f (2)": 2}
