"""PyTorch: state that all its callers share."""

import platform
from typing import Any

import torch

from assay.instruments.shared_state import Setting

_CPU = torch.device("cpu")
_SMALLEST = 5e-324


def settings() -> tuple[Setting, ...]:
    """All of it that can be read and, but for the number of interop threads, written back."""
    return _SETTINGS


def _flag(owner: Any, name: str, words: str) -> Setting:
    return Setting(
        name=words,
        read=lambda: getattr(owner, name),
        write=lambda value: setattr(owner, name, value),
    )


def _generators() -> list[torch.Generator]:
    on_gpus = torch.cuda.default_generators if torch.cuda.is_initialized() else ()
    return [torch.default_generator, *on_gpus]


def _random_state() -> list[tuple[int, bytes]]:
    return [(g.initial_seed(), g.get_state().numpy().tobytes()) for g in _generators()]


def _write_random_state(saved: list[tuple[int, bytes]]) -> None:
    for generator, (_, state) in zip(_generators(), saved, strict=False):
        generator.set_state(torch.frombuffer(bytearray(state), dtype=torch.uint8))


def _seeded(before: list[tuple[int, bytes]], after: list[tuple[int, bytes]]) -> str | None:
    seeds = [old[0] != new[0] for old, new in zip(before, after, strict=False)]
    return "torch's random seed" if any(seeds) else None


_SETTINGS = (
    Setting(  # first: what follows makes tensors
        name="torch's default device",
        read=torch.get_default_device,
        write=lambda device: torch.set_default_device(None if device == _CPU else device),
    ),
    Setting(
        name="torch's default dtype", read=torch.get_default_dtype, write=torch.set_default_dtype
    ),
    Setting(name="torch's threads", read=torch.get_num_threads, write=torch.set_num_threads),
    Setting(
        name="torch's interop threads",
        read=torch.get_num_interop_threads,
        write=torch.set_num_interop_threads,
    ),
    Setting(
        name="torch's float32 matmul precision",
        read=torch.get_float32_matmul_precision,
        write=torch.set_float32_matmul_precision,
    ),
    Setting(
        name="torch's deterministic mode",
        read=torch.get_deterministic_debug_mode,
        write=torch.set_deterministic_debug_mode,
    ),
    Setting(name="torch's gradients", read=torch.is_grad_enabled, write=torch.set_grad_enabled),
    Setting(
        name="torch's anomaly detection",
        read=torch.is_anomaly_enabled,
        write=torch.autograd.anomaly_mode.set_detect_anomaly,
    ),
    Setting(
        name="torch's flushing of denormals",
        read=lambda: _SMALLEST * 1.0 == 0.0,
        write=torch.set_flush_denormal,
    ),
    *(
        Setting(
            name=f"torch's autocast on {kind}",
            read=lambda kind=kind: torch.is_autocast_enabled(kind),
            write=lambda on, kind=kind: torch.set_autocast_enabled(kind, on),
        )
        for kind in ("cpu", "cuda")
    ),
    *(
        Setting(
            name=f"torch's {name} attention",
            read=getattr(torch.backends.cuda, f"{name}_sdp_enabled"),
            write=getattr(torch.backends.cuda, f"enable_{name}_sdp"),
        )
        for name in ("flash", "mem_efficient", "math", "cudnn")
    ),
    *(
        _flag(torch.backends.cudnn, name, f"cuDNN's {name}")
        for name in ("enabled", "benchmark", "deterministic", "allow_tf32")
    ),
    *(  # on ARM, torch turns it off by itself: see arrays.repeatable
        [_flag(torch.backends.mkldnn, "enabled", "torch's use of oneDNN")]
        if platform.machine() != "aarch64"
        else []
    ),
    Setting(
        name="torch's random numbers",
        read=_random_state,
        write=_write_random_state,
        words=_seeded,
        stays=False,
    ),
)
