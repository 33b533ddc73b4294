"""Commands that serve K16/V8 with vLLM and FlashInfer, for the commits whose code has that path.

A released vLLM takes one dtype for keys and values, and would quantise both: it is refused. What is
said of versions here was read in their code (docs/kv-ecosystem.md). Nothing of it was run.
"""

import importlib.metadata
import re
import shlex
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from assay.errors import BadInput
from assay.integrations import vllm_start
from assay.models.cached_layers import open_model

LABEL = "not run here"
LAYOUT = "k16v8"
_BUILDS = ("torch==2.10.0", "setuptools_scm", "setuptools", "wheel", "cmake", "ninja", "packaging")
_VERSION = re.compile(
    r"v?(?P<numbers>\d+(?:\.\d+)+)(?:(?:a|b|rc)\d+)?(?:\.post\d+)?(?:\.dev\d+)?"
    r"(?:\+(?P<local>[a-z0-9]+(?:[.-][a-z0-9]+)*))?"
)
_COMMIT = re.compile(r"g([0-9a-f]{7,40})")


@dataclass(frozen=True, kw_only=True)
class ForkedPackage:
    """A package at a commit that has the path, and what its releases have in the place of it."""

    name: str  # of the distribution
    repository: str
    commit: str
    oldest: str  # the releases that were read: from this one
    newest: str  # to this one
    instead: str
    # The number that the fork has as well, where a version does not name the commit.
    ambiguous: str | None = None


VLLM = ForkedPackage(
    name="vllm",
    repository="https://github.com/mcgrof/vllm",
    commit="2315e62e2",
    oldest="0.9.0",
    newest="0.27.1",
    instead="kv_cache_dtype is one name for keys and values (CacheDType in its config), and "
    "fp8_e4m3 would quantise the keys too",
)
FLASHINFER = ForkedPackage(
    name="flashinfer-python",
    repository="https://github.com/mcgrof/flashinfer",
    commit="2b532f7",
    oldest="0.2.0",
    newest="0.6.17",
    instead="plan of BatchDecodeWithPagedKVCacheWrapper takes one kv_data_type; run compares only "
    "the keys with it and would read FP8 values as if they had the keys' dtype",
    ambiguous="0.6.7",
)


@dataclass(frozen=True, kw_only=True)
class StatedVersion:
    """The version of a package: stated, or read here. None comes with a reason."""

    version: str | None
    reason: str | None = None


@dataclass(frozen=True, kw_only=True)
class ServingRecipe:
    """Commands in their order, and what was known of the versions."""

    label: str
    layout: str
    model: str
    versions: dict[str, StatedVersion]
    known: bool  # both versions are those with the path; otherwise the start decides
    build: tuple[str, ...]
    start: tuple[str, ...]
    notes: tuple[str, ...]

    def text(self) -> str:
        """Return it as lines for a shell, the notes as comments."""
        lines = [f"# {self.layout} of {self.model} with vLLM and FlashInfer: {self.label}"]
        for name, stated in self.versions.items():
            lines.append(f"# {name}: {stated.version or f'unknown, {stated.reason}'}")
        lines += [f"# {note}" for note in self.notes]
        if not self.known:
            lines += ["", "# Build both in an environment of their own.", *self.build]
        return "\n".join([*lines, "", "# Start, and stop unless K and V are apart.", *self.start])

    def as_json(self) -> dict[str, Any]:
        """Return it as values of JSON."""
        return asdict(self)


def make(
    model: str, *, layout: str = LAYOUT, vllm: str | None = None, flashinfer: str | None = None
) -> ServingRecipe:
    """Return the commands for a folder with a Hugging Face config.json. Versions that are not
    stated are read here. BadInput where the layout, the model or a version has no such path."""
    if layout != LAYOUT:
        raise BadInput(
            f"--layout is {layout!r}; the code that was read serves {LAYOUT} alone with dtypes of "
            "their own for keys and values"
        )
    folder, layers, key_elements = _sizes(model)
    versions = {
        VLLM.name: _stated(VLLM.name, vllm),
        FLASHINFER.name: _stated(FLASHINFER.name, flashinfer),
    }
    known = [has_path(package, versions[package.name].version) for package in (VLLM, FLASHINFER)]
    start = [
        "python", vllm_start.__file__, folder,
        "--layers", str(layers), "--key-elements", str(key_elements),
    ]  # fmt: skip
    return ServingRecipe(
        label=LABEL,
        layout=layout,
        model=folder,
        versions=versions,
        known=all(known),
        build=_build(),
        start=(f"{vllm_start.TRAVELS}=1 {shlex.join(start)}",),
        notes=(
            f"Of a token {layers} layers keep {layers * key_elements * 3} bytes: keys in 16 bits, "
            "values in FP8 e4m3.",
            "A layer has one scale for its values, 1.0 unless the checkpoint has another; our "
            f"{LAYOUT} has one for each token and head.",
            "The backend is chosen by attention_config; VLLM_ATTENTION_BACKEND is not read from "
            "vLLM 0.15.0 on.",
            f"{vllm_start.TRAVELS} lets the check travel to vLLM's worker; leave it out elsewhere.",
        ),
    )


def has_path(package: ForkedPackage, version: str | None) -> bool:
    """Return True for a version with the path, False where the version does not say; BadInput for
    one without it, one that was not read, and what is no version."""
    if version is None:
        return False
    numbers, commit = parse(version, package.name)
    wanted = (
        f"wanted commit {package.commit} of {package.repository}, in a version such as "
        f"{package.ambiguous or '0.18.1.dev1'}+g{package.commit}"
    )
    if commit is not None:
        if _same_commit(commit, package.commit):
            return True
        raise BadInput(f"{package.name} {version} is commit {commit}, which was not read; {wanted}")
    if version == package.ambiguous:
        return False
    if not _numbers(package.oldest) <= numbers <= _numbers(package.newest):
        raise BadInput(
            f"{package.name} {version} was not read; {package.oldest} to {package.newest} were, "
            f"and none keeps keys and values in dtypes of their own; {wanted}"
        )
    raise BadInput(
        f"{package.name} {version} has no path for {LAYOUT}: {package.instead}; {wanted}"
    )


def parse(version: str, name: str) -> tuple[tuple[int, ...], str | None]:
    """Return the numbers of a version and the commit that its local part names, if it does."""
    matched = _VERSION.fullmatch(version)
    if not matched:
        raise BadInput(
            f"{version!r} is no version of {name}; wanted one such as 0.18.1.dev1+gCOMMIT"
        )
    words = re.split(r"[.-]", matched["local"] or "")
    commits = [hit[1] for word in words if (hit := _COMMIT.fullmatch(word))]
    return _numbers(matched["numbers"]), commits[0] if commits else None


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in text.split("."))


def _same_commit(left: str, right: str) -> bool:
    return left.startswith(right) or right.startswith(left)


def _stated(name: str, version: str | None) -> StatedVersion:
    if version is not None:
        return StatedVersion(version=version)
    try:
        return StatedVersion(version=importlib.metadata.version(name))
    except importlib.metadata.PackageNotFoundError:
        return StatedVersion(version=None, reason="not installed in this environment")


def _sizes(model: str) -> tuple[str, int, int]:
    """The folder of a model, its layers, and the numbers of one key of one token in a layer."""
    opened = open_model(model)
    if opened.config is None:
        raise BadInput(f"{model} is a variant of ours, which vLLM does not load; give a folder")
    if opened.layout != "dense":
        raise BadInput(
            f"{opened.name} keeps {opened.layout}; vLLM's fork raises NotImplementedError for "
            "keys and values of their own dtypes there"
        )
    layers = opened.layers(dtype="bfloat16")
    if any(layer.kept_tokens for layer in layers):
        raise BadInput(
            f"{opened.name} has layers with a sliding window; what vLLM's fork keeps of them was "
            "not read"
        )
    return str(Path(opened.name).parent), len(layers), layers[0].per_token // 4


def _build() -> tuple[str, ...]:
    """The order of mcgrof/knlp, docs/decode-reproduction.md: vLLM's build replaces torch, so torch
    comes again before FlashInfer, which is installed without what it depends on."""
    torch, *tools = _BUILDS
    index = "--index-url https://download.pytorch.org/whl/cu128"
    return (
        f"pip install {index} {torch}",
        f"pip install {' '.join(tools)}",
        f"git clone {VLLM.repository} vllm && git -C vllm checkout {VLLM.commit}",
        "(cd vllm && python use_existing_torch.py && pip install -e . --no-build-isolation)",
        f"pip install {index} {torch}",
        f"git clone --recursive {FLASHINFER.repository} flashinfer",
        f"git -C flashinfer checkout {FLASHINFER.commit}",
        "git -C flashinfer submodule update --init --recursive",
        "(cd flashinfer && pip install -e . --no-deps --no-build-isolation)",
        "pip install transformers==4.57.6",
    )
