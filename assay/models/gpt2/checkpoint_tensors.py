"""The tensors of a model as a checkpoint has them: each once, and compared by name and form."""

from collections.abc import Mapping

import torch

from assay.models.gpt2.checkpoint_file import CheckpointHeader, Form


def apart(state: Mapping[str, torch.Tensor]) -> tuple[dict[str, torch.Tensor], dict[str, str]]:
    """Each tensor once, in memory of its own on the CPU; and the further names of shared ones."""
    tensors: dict[str, torch.Tensor] = {}
    tied: dict[str, str] = {}
    firsts: dict[tuple, str] = {}
    for name, tensor in state.items():
        place = (tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride())
        if tensor.numel() and place in firsts:
            tied[name] = firsts[place]
            continue
        firsts[place] = name
        own = tensor.detach().cpu().contiguous()
        whole = own.untyped_storage().nbytes() == own.numel() * own.element_size()
        tensors[name] = own if whole else own.clone()
    return tensors, tied


def differences(found: CheckpointHeader, model: torch.nn.Module) -> list[str]:
    """What keeps a checkpoint from filling a model, one sentence each."""
    tensors, tied = apart(model.state_dict())
    wanted = {name: _form(tensor) for name, tensor in tensors.items()}
    wrong = [f"{name} is missing" for name in wanted if name not in found.tensors]
    wrong += [f"{name} is unexpected" for name in found.tensors if name not in wanted]
    wrong += [
        f"{name} is {_words(form)}, wanted {_words(wanted[name])}"
        for name, form in found.tensors.items()
        if name in wanted and form != wanted[name]
    ]
    said = found.identity
    wrong += [
        f"{name} shares the tensor of {said.tied.get(name)}, wanted that of {tied.get(name)}"
        for name in sorted({*said.tied, *tied})
        if said.tied.get(name) != tied.get(name)
    ]
    if not wrong and said.parameters != count(model):
        wrong.append(f"it says {said.parameters:,} parameters and has {count(model):,}")
    return wrong


def count(model: torch.nn.Module) -> int:
    """All parameters, a shared one once."""
    return sum(parameter.numel() for parameter in model.parameters())


def _form(tensor: torch.Tensor) -> Form:
    return str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape)


def _words(form: Form) -> str:
    return f"{form[0]} {list(form[1])}"
