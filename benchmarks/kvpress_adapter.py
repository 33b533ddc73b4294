"""Eviction by kvpress, in an environment of its own, at the bytes that a layout of ours keeps.

kvpress 0.5.5 needs a transformers older than ours, so it runs in another Python: a request goes in
and rows come back as JSON files, within a limit on time and without the network.
"""

import json
import os
import shlex
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from assay.errors import BadInput, CannotRunHere
from assay.instruments import isolation
from assay.kv.account import cache_bytes
from assay.models.cached_layers import open_model

VERSION = "0.5.5"
REQUIREMENTS = (f"kvpress=={VERSION}", "torch==2.13.0")
WORKER = Path(__file__).with_name("kvpress_worker.py")
# By press, the shortest context that it takes.
CONTEXTS = {"expected_attention": 5, "knorm": 1, "random": 1, "snapkv": 65, "streaming_llm": 5}
DTYPES = ("float32", "bfloat16", "float16")
INSTALL_LIMIT_S = WORKER_LIMIT_S = 3600.0


@dataclass(frozen=True, kw_only=True)
class Eviction:
    """One window of tokens under one press: bytes of the context's cache before and after, and the
    tokens behind it, scored through what is left. `top1` is the share of tokens whose likeliest
    successor is that of the whole cache; `nll` is a mean, in nats."""

    press: str
    ratio: float
    window: int
    kept_bytes: int
    dense_bytes: int
    nll: float
    dense_nll: float
    top1: float
    tokens: int
    seconds: float


@dataclass(frozen=True, kw_only=True)
class MatchedRatio:
    """The ratio at which eviction keeps the bytes of a context in a layout, or the most below."""

    layout: str
    ratio: float
    kept_tokens: int
    layout_bytes: int
    kept_bytes: int
    dense_bytes: int


def environment_commands(folder: Path) -> list[list[str]]:
    """Return the commands that make the environment of kvpress in `folder`."""
    return [
        [sys.executable, "-I", "-m", "venv", str(folder)],
        [str(folder / "bin" / "python"), "-I", "-m", "pip", "install", *REQUIREMENTS],
    ]


def make_environment(folder: Path) -> Path:
    """Install kvpress and what it needs, about 1.4 GB, in a new environment; return its Python."""
    if folder.exists():
        raise BadInput(f"{folder} is there already; give a folder that is not, or use it as it is")
    for command in environment_commands(folder):
        _run(command, INSTALL_LIMIT_S, dict(os.environ), shlex.join(command))
    return interpreter(folder)


def interpreter(environment: Path) -> Path:
    """Return the Python of an environment, which is a folder or that file itself."""
    python = environment if environment.is_file() else environment / "bin" / "python"
    if not python.is_file():
        commands = " && ".join(shlex.join(c) for c in environment_commands(environment))
        raise CannotRunHere(f"{environment} holds no bin/python; make it: {commands}")
    return python


def evict(
    model_folder: Path,
    token_windows: Sequence[Sequence[int]],
    press: str,
    ratio: float,
    environment: Path,
    *,
    context: int | None = None,
    dtype: str = "float32",
) -> list[Eviction]:
    """Return a row for each window under one press; see `evict_pairs`."""
    pairs = [(press, ratio)]
    return evict_pairs(
        model_folder, token_windows, pairs, environment, context=context, dtype=dtype
    )


def evict_pairs(
    model_folder: Path,
    token_windows: Sequence[Sequence[int]],
    pairs: Sequence[tuple[str, float]],
    environment: Path,
    *,
    context: int | None = None,
    dtype: str = "float32",
    timeout_s: float = WORKER_LIMIT_S,
) -> list[Eviction]:
    """Return a row for each window and each pair of a press and the share of tokens that it drops.

    `context` tokens of each window are prefilled and pressed (half of it by default), the others
    scored. The model is a folder that transformers reads, on the CPU, in `dtype`.
    """
    windows = [list(window) for window in token_windows]
    _refuse_windows(windows, model_folder)
    context = len(windows[0]) // 2 if context is None else context
    _refuse_pairs(pairs, context, len(windows[0]))
    if dtype not in DTYPES:
        raise BadInput(f"dtype is {dtype!r}; wanted one of {', '.join(DTYPES)}")
    request = {
        "kvpress": VERSION,
        "model": str(model_folder.resolve()),
        "windows": windows,
        "context": context,
        "dtype": dtype,
        "pairs": [{"press": press, "ratio": ratio} for press, ratio in pairs],
    }
    return [Eviction(**row) for row in _ask(interpreter(environment), request, timeout_s)]


def matched_ratio(model: str, layout: str, *, context: int, dtype: str) -> MatchedRatio:
    """Return the ratio at which a context's cache has the bytes of `layout`, never above them."""
    opened = open_model(model)
    layers = opened.layers(dtype=dtype)
    if any(layer.kept_tokens or layer.fixed for layer in layers):
        raise BadInput(
            f"{opened.name} keeps more than tokens, or of a window; a ratio matches none"
        )
    dense = cache_bytes(layers, context)
    budget = cache_bytes(opened.layers(dtype=dtype, layout=layout), context)
    kept = min(context, budget * context // dense)
    if kept < 1:
        raise BadInput(f"{budget} bytes hold no token of {context}; give a longer context")
    return MatchedRatio(
        layout=layout,
        ratio=ratio_of(kept, context),
        kept_tokens=kept,
        layout_bytes=budget,
        kept_bytes=dense // context * kept,
        dense_bytes=dense,
    )


def ratio_of(kept: int, context: int) -> float:
    """Return a ratio by which kvpress keeps exactly `kept` tokens: it takes the whole part of
    context x (1 - ratio), so half a token is added against rounding."""
    return 0.0 if kept == context else 1 - (kept + 0.5) / context


def _refuse_windows(windows: Sequence[Sequence[int]], model_folder: Path) -> None:
    if not windows or len({len(window) for window in windows}) != 1:
        raise BadInput("token windows must be one or more, all of one length")
    try:
        vocabulary = json.loads((model_folder / "config.json").read_text())["vocab_size"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadInput(
            f"{model_folder} holds no config.json with a vocab_size ({error!r}); give a folder "
            "that save_pretrained has written"
        ) from error
    ids = [token for window in windows for token in window]
    if not all(isinstance(i, int) and 0 <= i < vocabulary for i in ids):
        raise BadInput(f"a token is no whole number from 0 to {vocabulary - 1}, the model's ids")


def _refuse_pairs(pairs: Sequence[tuple[str, float]], context: int, length: int) -> None:
    if not pairs:
        raise BadInput("no press to run; give pairs of a press and a ratio")
    if not 1 <= context <= length - 2:
        raise BadInput(
            f"the context is {context} of {length} tokens; wanted 1 to {length - 2}, for the token "
            "behind it is fed and those after it are scored"
        )
    for press, ratio in pairs:
        if press not in CONTEXTS:
            raise BadInput(f"there is no press {press!r} here; wanted one of {', '.join(CONTEXTS)}")
        if not 0 <= ratio < 1:
            raise BadInput(f"the ratio of {press} is {ratio}; wanted a share from 0 to below 1")
        if context < CONTEXTS[press]:
            raise BadInput(
                f"{press} needs a context of at least {CONTEXTS[press]} tokens; it is {context}"
            )


def _ask(python: Path, request: Mapping[str, object], timeout_s: float) -> list[dict]:
    """Run the worker; return the rows that it wrote."""
    offline = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
    with tempfile.TemporaryDirectory() as folder:
        asked, answered = Path(folder, "request.json"), Path(folder, "result.json")
        asked.write_text(json.dumps(request))
        # -I: otherwise this folder's kvpress.py would be taken for the package.
        command = [str(python), "-I", str(WORKER), str(asked), str(answered)]
        _run(command, timeout_s, os.environ | offline, f"kvpress in {python}")
        return json.loads(answered.read_text())


def _run(command: Sequence[str], timeout_s: float, environment: dict[str, str], what: str) -> None:
    with tempfile.TemporaryFile() as log:
        end = isolation.run(
            command,
            stdout=log,
            stderr=log,
            environment=environment,
            limits=isolation.Limits(timeout_s=timeout_s),
        )
        log.seek(0)
        last = log.read().decode(errors="replace").strip().rpartition("\n")[2]
    if end.ending == "timeout":
        raise CannotRunHere(f"{what} ran longer than {timeout_s:g} s and was ended")
    if end.ending != "finished":
        raise CannotRunHere(f"{what} failed: {last or end.reason}")
