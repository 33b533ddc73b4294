"""The models that evals score: one in training, a saved state of one, or a pretrained one."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from assay.errors import BadInput
from assay.frameworks.torch import first_calls
from assay.models.gpt2 import checkpoint
from assay.models.pretrained import catalog, language_model
from assay.train import data, description, saved_state
from assay.train.text_model import TextModel
from assay.train.tokenizer import Tokenizer

if TYPE_CHECKING:
    from assay.train.trainer import Trainer


def in_training(trainer: "Trainer") -> TextModel:
    """The model of a run with the weights that it has now. All processes must ask for it."""
    model = trainer.whole_model()

    @torch.no_grad()
    def logits(tokens: torch.Tensor) -> torch.Tensor:
        model.eval()
        with trainer.autocast():
            values, _ = model(tokens)
        model.train()
        return values

    return _of_family(
        model,
        trainer.data.tokenizer,
        logits=logits,
        name=trainer.settings.arm,
        state={"weights": "those of the last step", "step": trainer.step},
        device=trainer.device,
    )


def opened(
    name: str, *, dtype: str, device: str, data_folder: Path, folders: Sequence[Path] = ()
) -> TextModel:
    """The model called `name`: a folder of a saved state, whose data lies in `data_folder`, or
    what models/pretrained/catalog.py opens."""
    first_calls.resolve()
    if (Path(name) / saved_state.LAST).is_file():
        return _saved(name, dtype, device, data_folder, folders)
    return of_pretrained(catalog.open_model(name, dtype=dtype, device=device))


def of_pretrained(loaded: language_model.LanguageModel) -> TextModel:
    model, tokenizer, identity = loaded
    start, ends = None, frozenset()
    if tokenizer is not None:
        first = (tokenizer.bos_token_id, tokenizer.eos_token_id)
        start = next((token for token in first if token is not None), None)
        ends = frozenset({tokenizer.eos_token_id} - {None})

    def decode(tokens: Sequence[int]) -> str:
        if tokenizer is not None:
            return tokenizer.decode(tokens, skip_special_tokens=True)
        return bytes(token for token in tokens if token < 256).decode(errors="replace")

    @torch.no_grad()
    def logits(tokens: torch.Tensor) -> torch.Tensor:
        return model(tokens, use_cache=False).logits

    return TextModel(
        name=identity.name,
        state={"weights": identity.digest or identity.revision, "dtype": str(model.dtype)},
        encode=loaded.token_ids,
        decode=decode,
        logits=logits,
        length=model.config.max_position_embeddings,
        start=start,
        ends=ends,
        vocabulary=model.config.vocab_size if tokenizer is None else len(tokenizer),
        device=model.device,
    )


def _saved(
    name: str, dtype: str, device: str, data_folder: Path, folders: Sequence[Path]
) -> TextModel:
    """The model of the last step in a saved state, with the tokenizer of the data that it names by
    its digest."""
    folder = Path(name)
    position = saved_state.last(folder)
    assert position is not None  # the caller has seen the file
    prepared = _data_of(position.data_digest, data_folder, folders, folder)
    path = saved_state.weights_of(folder, position)
    if checkpoint.identity(path).digest != position.weights_digest:
        raise BadInput(
            f"{path} is not the one that {folder / saved_state.LAST} names; take another copy"
        )
    model = checkpoint.load(path, device=device, folders=folders)
    model = model.to(getattr(torch, dtype)).eval()

    @torch.no_grad()
    def logits(tokens: torch.Tensor) -> torch.Tensor:
        return model(tokens)[0]

    state = {"weights": position.weights_digest, "dtype": dtype, "step": position.step}
    return _of_family(
        model, prepared.tokenizer, logits=logits, name=name, state=state,
        device=torch.device(device),
    )  # fmt: skip


def _data_of(
    digest: str, data_folder: Path, folders: Sequence[Path], state: Path
) -> data.PreparedData:
    for path in sorted(data_folder.glob(f"*/{description.FILE}")):
        if description.read(path.parent).digest == digest:
            return data.open_prepared(path.parent, folders=folders)
    raise BadInput(
        f"{state} was trained on data of the digest {digest[:20]}, which is not in {data_folder}, "
        "so that its tokenizer is not known; give the folder of prepared data with --set "
        "TRAIN_DATA_FOLDER=PATH"
    )


def _of_family(model: Any, tokenizer: Tokenizer, **rest: Any) -> TextModel:
    if tokenizer.size > model.config.vocab_size:
        raise BadInput(
            f"the tokenizer has {tokenizer.size} tokens, the model {model.config.vocab_size}; "
            "they do not belong together"
        )
    return TextModel(
        encode=tokenizer.encode,
        decode=tokenizer.decode,
        length=model.config.block_size,
        start=tokenizer.end,
        ends=frozenset({tokenizer.end}),
        vocabulary=tokenizer.size,
        **rest,
    )
