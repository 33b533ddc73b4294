"""A hub that cannot be reached is found out in seconds, not after the retries of its library."""

import socket
import time

import pytest

from assay.errors import CannotRunHere
from assay.models.pretrained import hub, huggingface


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch):
    proxies = [name + "_proxy" for name in ("https", "http", "all", "no")]
    for name in ("HF_HUB_OFFLINE", *proxies, *map(str.upper, proxies)):
        monkeypatch.delenv(name, raising=False)


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def test_a_hub_answers_where_something_listens(monkeypatch):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        here = f"http://127.0.0.1:{listener.getsockname()[1]}"
        monkeypatch.setenv("HF_ENDPOINT", here)
        assert hub.answers()
        monkeypatch.setenv("HF_ENDPOINT", "http://nowhere.invalid")
        monkeypatch.setenv("http_proxy", here)
        assert hub.answers(), "a proxy stands before the hub"
        monkeypatch.setenv("http_proxy", here.removeprefix("http://"))
        assert hub.answers(), "a proxy may be named without http://"
        monkeypatch.setenv("no_proxy", "nowhere.invalid")
        assert not hub.answers(), "this address is asked without a proxy"
        monkeypatch.delenv("no_proxy")
        monkeypatch.setenv("HF_HUB_OFFLINE", "0")
        assert hub.answers() and "is set" not in hub.absence()
        monkeypatch.setenv("HF_HUB_OFFLINE", "1")
        assert not hub.answers()
    assert "HF_HUB_OFFLINE is set" in hub.absence()


def test_an_address_that_is_none_is_no_answer(monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:port")
    assert not hub.answers()


@pytest.mark.parametrize("host", ["nowhere.invalid", "127.0.0.1"])
def test_no_answer_is_known_in_seconds(host, monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", f"https://{host}:{free_port()}")
    began = time.monotonic()
    assert not hub.answers()
    assert time.monotonic() - began < hub.PATIENCE_S + 2


def test_a_model_of_the_hub_is_refused_in_words_and_in_seconds(monkeypatch):
    """The library asked six times, for 38 seconds on two cores."""
    pytest.importorskip("transformers")
    monkeypatch.setenv("HF_ENDPOINT", f"https://127.0.0.1:{free_port()}")
    for _ in range(2):  # the first imports the library
        began = time.monotonic()
        with pytest.raises(CannotRunHere, match=r"no answer from .* within 3 s, and no download"):
            huggingface.load("no-such-owner/no-such-model")
    assert time.monotonic() - began < hub.PATIENCE_S + 5
