"""A language model that is ready to run, its identity, and what every loader of one needs."""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from assay import plugins
from assay.errors import BadInput, CannotRunHere
from assay.installation import how_to_add

DTYPES = ("float32", "bfloat16", "float16")
_BYTE_VALUES = 256


@dataclass(frozen=True, kw_only=True)
class ModelIdentity:
    """Identity of some weights. What is not known is None, and `why` has the reason by name."""

    name: str  # as the user wrote it
    title: str | None  # as its makers call it
    architecture: str  # the class that runs it
    parameters: int  # tied ones are counted once
    digest: str | None  # "sha256:..." of the weights: of the file they lie in, where there is one
    stored: str | None = None  # in which types a file holds them
    revision: str | None = None  # version of the package or commit of the repository
    licence: str | None = None
    why: dict[str, str]


class LanguageModel(NamedTuple):
    """A model in evaluation mode on its device, its tokenizer, and its identity."""

    model: Any  # a transformers model
    tokenizer: Any | None  # a transformers tokenizer; None where the model comes without one
    identity: ModelIdentity

    def token_ids(self, text: str) -> list[int]:
        """The ids of a text and none more; without a tokenizer, they are its UTF-8 bytes."""
        if self.tokenizer is not None:
            return list(self.tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])
        vocabulary = self.model.config.vocab_size
        if vocabulary < _BYTE_VALUES:
            raise BadInput(
                f"{self.identity.name} has no tokenizer and only {vocabulary} ids, too few for "
                f"bytes ({_BYTE_VALUES}); give token ids, or a model with a tokenizer"
            )
        return list(text.encode())

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """The texts of ids, as the tokenizer keeps them; without one, they are letters of ASCII."""
        if self.tokenizer is not None:
            return [str(token) for token in self.tokenizer.convert_ids_to_tokens(list(ids))]
        return [chr(number) if number < 128 else "·" for number in ids]


def require_packages(packages: Sequence[str], *, purpose: str) -> None:
    """Refuse to go on where one of `packages` is not installed."""
    missing = [package for package in packages if not plugins.installed(package)]
    if missing:
        raise CannotRunHere(
            f"{purpose} needs {', '.join(missing)}, not installed here: {how_to_add('hf')}"
            + (f" and {how_to_add('torch')}" if "torch" in missing else "")
        )


def torch_dtype(name: str) -> Any:
    """torch's dtype called `name`."""
    import torch

    if name not in DTYPES:
        raise BadInput(f"dtype {name!r} is not one a model is loaded in; say {', '.join(DTYPES)}")
    return getattr(torch, name)


def place(model: Any, device: str) -> Any:
    """The model in evaluation mode on `device`, its dtypes as they are.

    `model.to(dtype)` is never used: it would round the frequencies of the rotary embedding too.
    """
    import torch

    try:
        return model.to(torch.device(device)).eval()
    except (RuntimeError, AssertionError) as error:
        if isinstance(error, torch.OutOfMemoryError):
            raise
        if re.match(r"(cpu|cuda|xpu|mps)(:\d+)?$", device):
            raise CannotRunHere(f"there is no device {device!r} here: {error}") from error
        raise BadInput(
            f"{device!r} is not the name of a device ({error}); say cpu or cuda:0"
        ) from error


def with_weights(
    kind: type, config: Any, weights: Mapping[str, Any], *, dtype: Any, attention: str
) -> tuple[Any, dict[str, Any]]:
    """A transformers model of class `kind` with `weights` in `dtype`, and what did not fit, by
    the kind of problem."""
    with loading(attention):
        model, report = kind.from_pretrained(
            None,
            config=config,
            state_dict=weights,
            dtype=dtype,
            attn_implementation=attention,
            output_loading_info=True,
        )
    return model, {problem: names for problem, names in report.items() if names}


@contextmanager
def loading(attention: str) -> Iterator[None]:
    """Load through transformers: its refusal of an attention implementation becomes one of ours,
    and its progress bars, which would be mixed into what a verb prints, are off."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    except ImportError as error:
        raise CannotRunHere(f"attention {attention!r} cannot run here: {error}") from error
    except ValueError as error:
        if attention in str(error):
            raise BadInput(f"attention {attention!r}: {error}") from error
        raise
    finally:
        if shown:
            logging.enable_progress_bar()


def count_parameters(model: Any) -> int:
    """Number of learned numbers; `parameters()` gives a tied one once."""
    return sum(parameter.numel() for parameter in model.parameters())


def digest_of_parameters(model: Any) -> str:
    """Digest of names, dtypes, shapes and bits of all parameters, on whatever device they are."""
    import torch

    summary = hashlib.sha256()
    for name, parameter in sorted(model.named_parameters()):
        bits = parameter.detach().cpu().contiguous().view(torch.uint8)
        summary.update(f"{name} {parameter.dtype} {list(parameter.shape)}\n".encode())
        summary.update(bits.numpy().tobytes())
    return f"sha256:{summary.hexdigest()}"
