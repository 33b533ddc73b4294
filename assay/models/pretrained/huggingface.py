"""Models in transformers' own form: a folder on this machine, or a name on the Hugging Face hub.

Weights are read from safetensors only, and code that lies beside a model is never run.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

from assay.errors import BadInput, CannotRunHere
from assay.models.pretrained import hub, language_model
from assay.models.pretrained.language_model import LanguageModel, ModelIdentity


def load(
    name: str, *, dtype: str = "float32", device: str = "cpu", attention: str = "sdpa"
) -> LanguageModel:
    """The causal language model in the folder `name`, or the hub's `owner/name`."""
    packages = ("torch", "transformers", "safetensors")
    language_model.require_packages(packages, purpose=f"the model {name}")
    torch_dtype = language_model.torch_dtype(dtype)
    require_weights(name)
    local = Path(name).is_dir() or not hub.answers()
    model = _model(name, torch_dtype, attention, local=local)
    digest, why = _digest(name)
    revision = getattr(model.config, "_commit_hash", None)
    if revision is None:
        why["revision"] = "a folder has none" if Path(name).is_dir() else "the hub gave none"
    identity = ModelIdentity(
        name=name,
        title=name.rstrip("/").rpartition("/")[2],
        architecture=type(model).__name__,
        parameters=language_model.count_parameters(model),
        digest=digest,
        revision=revision,
        why={
            "licence": "not part of transformers' files; see the model's card",
            "stored": "safetensors files were not looked into",
            **why,
        },
    )
    return LanguageModel(
        language_model.place(model, device), _tokenizer(name, local=local), identity
    )


def require_weights(name: str) -> None:
    """Refuse a folder without a configuration or without weights that are read here."""
    folder = Path(name)
    if not folder.is_dir():
        return
    if not (folder / "config.json").is_file():
        raise BadInput(
            f"{name} holds no config.json; give a folder that save_pretrained has written"
        )
    if not any(folder.glob("*.safetensors")):
        raise BadInput(
            f"{name} holds no *.safetensors, and pickled weights are not read: "
            "write it again with save_pretrained"
        )


def require_positions(name: str, tokens: int) -> None:
    """Refuse a folder whose configuration has fewer positions than a window of so many tokens."""
    path = Path(name) / "config.json"
    config = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    text = config.get("text_config", config)
    positions = text.get("max_position_embeddings") or text.get("n_positions")
    if positions and tokens > positions:
        raise BadInput(
            f"--window {tokens:,}: {name} has {positions:,} positions; give {positions:,} or less"
        )


def _model(name: str, dtype: Any, attention: str, *, local: bool) -> Any:
    import transformers

    try:
        with language_model.loading(attention):
            return transformers.AutoModelForCausalLM.from_pretrained(
                name,
                dtype=dtype,
                attn_implementation=attention,
                use_safetensors=True,
                trust_remote_code=False,
                local_files_only=local,
            )
    except OSError as error:
        if Path(name).is_dir():
            raise BadInput(f"{name} cannot be loaded: {error}") from error
        reason = f"{hub.absence()}, and no download is kept." if local else _first_line(error)
        raise CannotRunHere(
            f"there is no folder {name} here, and the Hugging Face hub did not give it: "
            f"{reason} Give a folder, or `smollm2`, which comes with a package"
        ) from error
    except ValueError as error:
        raise BadInput(f"{name} cannot be loaded: {_first_line(error)}") from error


def _tokenizer(name: str, *, local: bool) -> Any | None:
    """The model's tokenizer; None where it comes without one.

    For a folder without a tokenizer's files, transformers makes one up that knows nothing but its
    special tokens: that is none.
    """
    import transformers

    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(
            name, trust_remote_code=False, local_files_only=local
        )
    except (OSError, ValueError, KeyError):
        return None
    return tokenizer if len(tokenizer) > len(tokenizer.all_special_ids) else None


def _digest(name: str) -> tuple[str | None, dict[str, str]]:
    """Digest of the configuration and the weights in a folder, and the reason where it has none."""
    folder = Path(name)
    if not folder.is_dir():
        return None, {"digest": "from the hub: its revision names the weights"}
    summary = hashlib.sha256()
    for path in [folder / "config.json", *sorted(folder.glob("*.safetensors"))]:
        with path.open("rb") as file:
            summary.update(f"{path.name} ".encode())
            summary.update(hashlib.file_digest(file, "sha256").digest())
    return f"sha256:{summary.hexdigest()}", {}


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
