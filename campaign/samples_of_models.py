"""Samples of what models and training read: caches, checkpoints, states, shards, GGUF."""

import random
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any


@cache
def _chunk() -> Any:
    from serialized_chunks import chunk_of

    return chunk_of("k16v8", tokens=3)


def make_chunk(folder: Path) -> None:
    from serialized_chunks import encoded, tensors_of

    (folder / "chunk.kv").write_bytes(encoded(_chunk(), tensors_of(_chunk())))


def read_chunk(folder: Path) -> None:
    from assay.kv import wire

    wire.decode_from((folder / "chunk.kv").read_bytes(), expected=_chunk())


def reseal_chunk(folder: Path, draw: random.Random) -> None:
    """A checksum that is right, and in half of the cases a size that is right too."""
    from assay.records.checksum import checksum_of

    buffer = bytearray((folder / "chunk.kv").read_bytes())
    if len(buffer) >= 40:
        if draw.randrange(2):
            buffer[24:32] = len(buffer).to_bytes(8, "little")
        buffer[-8:] = bytes.fromhex(checksum_of([memoryview(buffer)[:-8]]).partition(":")[2])
        (folder / "chunk.kv").write_bytes(buffer)


def _model(seed: int = 0) -> Any:
    import torch
    from tiny_gpt2 import make

    return make("GPT2", seed=seed, n_layer=1).to(torch.float32)


def make_checkpoint(folder: Path) -> None:
    from assay.models.gpt2 import checkpoint

    checkpoint.save(_model(), folder / "weights.safetensors", step=3)


def read_checkpoint(folder: Path) -> None:
    from assay.models.gpt2 import checkpoint

    checkpoint.load(folder / "weights.safetensors")


def _optimizer(model: Any) -> Any:
    import torch

    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    return optimizer


def make_state(folder: Path) -> None:
    from assay.train import saved_state
    from assay.train.parallel import ONE_PROCESS

    model = _model()
    position = saved_state.Position(
        step=4, seconds=1.5, micro_batch=2, data_digest="d", settings_digest="s", best_loss=2.5,
        best_step=2, initial_digests=saved_state.digests(model),
    )  # fmt: skip
    saved_state.save(folder, model, _optimizer(model), position, ONE_PROCESS)


def read_state(folder: Path) -> None:
    from assay.train import saved_state

    if position := saved_state.last(folder):
        model = _model(seed=1)
        saved_state.restore(folder, position, model, _optimizer(model))


def reseal_state(folder: Path, draw: random.Random) -> None:
    """Digests of the tensors as they are now, as someone who edits a state would write them."""
    import json
    from contextlib import suppress

    from safetensors import SafetensorError
    from safetensors.torch import load_file

    from assay.models.gpt2 import weights_file

    with suppress(ValueError, SafetensorError, RecursionError, OSError, TypeError, KeyError):
        last = json.loads((folder / "last.json").read_text())
        tensors = load_file(folder / f"step-{last['step']:06}.optimizer.safetensors")
        last["optimizer_digest"] = weights_file.digest_of(tensors)
        (folder / "last.json").write_text(json.dumps(last))


def make_data(folder: Path) -> None:
    from assay.train import data

    source = folder / "source"
    source.mkdir()
    for number in range(30):
        (source / f"{number}.txt").write_text(f"text {number} of some words " * 5)
    made = folder / "made"
    prepared = data.prepare("folder", "bpe", vocabulary=264, place=str(source), folder=made)
    prepared.path.rename(folder / "prepared")


def read_data(folder: Path) -> None:
    from assay.train import data

    prepared = data.open_prepared(folder / "prepared")
    prepared.description.words  # noqa: B018
    prepared.tokenizer.decode(
        [int(t) for t in prepared.train.window(0, min(4, len(prepared.train)))]
    )
    len(prepared.validation)


def reseal_data(folder: Path, draw: random.Random) -> None:
    """The digest of the whole as it would be, so that a changed description is believed."""
    import json
    from contextlib import suppress

    import msgspec

    from assay.train import description

    with suppress(ValueError, KeyError, TypeError, RecursionError, OverflowError, AttributeError):
        path = folder / "prepared" / description.FILE
        content = json.loads(path.read_text())
        entries = msgspec.convert(content["shards"], dict[str, list[description.ShardEntry]])
        content["digest"] = description.digest_of(
            content["dataset"], content["tokenizer_state"], entries
        )
        path.write_text(json.dumps(content))


def make_gguf(folder: Path) -> None:
    from made_gguf import gguf_tensors, small_llama, trained_tokenizer, write

    tokenizer = trained_tokenizer()
    model = small_llama(vocabulary=tokenizer.get_vocab_size())
    write(folder / "model.gguf", gguf_tensors(model), tokenizer, quantised=True)


def read_gguf(folder: Path) -> None:
    from assay.models.pretrained import llama

    llama.load(folder / "model.gguf")


def formats(kind: Callable[..., Any]) -> list[Any]:
    """A row for each format."""
    return [
        kind(name="kv_chunk", make=make_chunk, read=read_chunk, reseal=reseal_chunk),
        kind(name="checkpoint", make=make_checkpoint, read=read_checkpoint),
        kind(name="saved_state", make=make_state, read=read_state, reseal=reseal_state),
        kind(
            name="prepared_data", make=make_data, read=read_data, reseal=reseal_data,
            altered="prepared/*",
        ),
        kind(name="gguf", make=make_gguf, read=read_gguf),
    ]  # fmt: skip
