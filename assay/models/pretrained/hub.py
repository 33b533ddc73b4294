"""The Hugging Face hub, tried once before its library is: that asks again for half a minute."""

import os
import socket
from threading import Thread
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

PATIENCE_S = 3.0  # for a name and a connection
_ADDRESS = "https://huggingface.co"
_TRUE = ("1", "on", "yes", "true")


def address() -> str:
    """The address at which the hub is asked."""
    return os.environ.get("HF_ENDPOINT") or _ADDRESS


def answers() -> bool:
    """True where something listens at the hub's address, or at the proxy before it; False where
    HF_HUB_OFFLINE says that it must not be asked."""
    if _is_forbidden():
        return False
    try:
        host, port = _first_stop()
    except ValueError:  # an address that is none
        return False
    connected: list[bool] = []
    # In a thread: looking up a name has no limit of its own.
    asking = Thread(target=_connect, args=(host, port, connected), daemon=True)
    asking.start()
    asking.join(PATIENCE_S)
    return bool(connected)


def _is_forbidden() -> bool:
    return os.environ.get("HF_HUB_OFFLINE", "").lower() in _TRUE


def _first_stop() -> tuple[str, int]:
    """Host and port of the hub, or of the proxy before it."""
    place = urlsplit(address())
    proxy = getproxies().get(place.scheme)
    if proxy and not proxy_bypass(place.hostname or ""):
        place = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    return place.hostname or "", place.port or {"http": 80}.get(place.scheme, 443)


def _connect(host: str, port: int, connected: list[bool]) -> None:
    try:
        socket.create_connection((host, port), timeout=PATIENCE_S).close()
    except OSError:
        return
    connected.append(True)


def absence() -> str:
    """The reason why only files that were downloaded before are looked at."""
    if _is_forbidden():
        return "HF_HUB_OFFLINE is set"
    return f"no answer from {address()} within {PATIENCE_S:g} s"
