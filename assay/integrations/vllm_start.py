"""Starts vLLM with K16/V8 and stops unless its cache really keeps keys and values apart.

A script for the environment of vLLM, where assay is not installed: it imports the standard library,
vLLM and FlashInfer. `assay kv recipe` prints its command line.
"""

import argparse
import importlib.metadata
import inspect
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

KEYS, VALUES = "auto", "fp8_e4m3"  # kv_cache_dtype: "auto" is the dtype of the model
BACKEND = "FLASHINFER"
TRAVELS = "VLLM_ALLOW_INSECURE_SERIALIZATION"
UNCHECKED = "FLASHINFER_DISABLE_VERSION_CHECK"
IGNORED = "VLLM_ATTENTION_BACKEND"
WIDE, NARROW = ("torch.bfloat16", "torch.float16"), "torch.float8_e4m3fn"
FLASHINFER, CUBIN, JIT_CACHE = "flashinfer-python", "flashinfer-cubin", "flashinfer-jit-cache"


def version_faults(versions: Mapping[str, str | None], environment: Mapping[str, str]) -> list[str]:
    """Return what FlashInfer's own check of versions would stop at, and what switches it off."""
    own = versions[FLASHINFER]
    if own is None:
        return [f"{FLASHINFER} is not installed"]
    faults = []
    if environment.get(UNCHECKED):
        faults.append(f"{UNCHECKED} is set: kernels of another version would be taken as they are")
    if environment.get(IGNORED):
        faults.append(f"{IGNORED} is set and not read: the backend comes from attention_config")
    cubin, jit_cache = versions.get(CUBIN), versions.get(JIT_CACHE)
    if cubin is not None and cubin != own:
        faults.append(f"{CUBIN} is {cubin}, {FLASHINFER} is {own}: install one version of both")
    if jit_cache is not None and not jit_cache.startswith(own):  # it ends in CUDA's version
        faults.append(f"{JIT_CACHE} is {jit_cache}, {FLASHINFER} is {own}: install one of both")
    return faults


def interface_faults(plan: Any, cache_config: Any) -> list[str]:
    """Return what FlashInfer's `plan` and vLLM's module of cache settings lack for two dtypes."""
    lacking = {"k_data_type", "v_data_type"} - set(inspect.signature(plan).parameters)
    faults = [f"FlashInfer's plan has no {name}" for name in sorted(lacking)]
    if not hasattr(cache_config, "is_asymmetric_kv"):
        faults.append("vLLM's kv_cache_dtype is one name for keys and values")
    return faults


def described_caches(worker: Any) -> list[dict[str, Any]]:
    """Return dtypes, shapes and bytes of each layer's cache: two tensors, or one of both."""
    layers = []
    for cache in worker.model_runner.kv_caches:
        tensors = tuple(cache) if isinstance(cache, tuple | list) else (cache,)
        layers.append({
            "dtypes": [str(tensor.dtype) for tensor in tensors],
            "shapes": [list(tensor.shape) for tensor in tensors],
            "bytes": [tensor.numel() * tensor.element_size() for tensor in tensors],
        })  # fmt: skip
    return layers


def cache_faults(
    caches: Sequence[Mapping[str, Any]], *, layers: int, key_elements: int
) -> list[str]:
    """Return what is not as K16/V8 has it: tensors [blocks, page, heads, D] of keys in 16 bits and
    of values in FP8, at half the bytes."""
    faults = [] if len(caches) == layers else [f"{len(caches)} caches for {layers} layers"]
    for number, cache in enumerate(caches):
        dtypes, shapes, sizes = cache["dtypes"], cache["shapes"], cache["bytes"]
        if len(dtypes) != 2:
            faults.append(f"layer {number} keeps keys and values in one tensor of {dtypes[0]}")
        elif dtypes[0] not in WIDE or dtypes[1] != NARROW:
            faults.append(f"layer {number} keeps keys in {dtypes[0]}, values in {dtypes[1]}")
        elif shapes[0] != shapes[1] or shapes[0][-2] * shapes[0][-1] != key_elements:
            faults.append(f"layer {number} has shapes {shapes}; wanted {key_elements} to a token")
        elif sizes[0] != 2 * sizes[1]:
            faults.append(f"layer {number} keeps {sizes[0]} and {sizes[1]} bytes; wanted 2 to 1")
    return faults


def _installed() -> dict[str, str | None]:
    versions: dict[str, str | None] = {}
    for name in (FLASHINFER, CUBIN, JIT_CACHE):
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = None
    return versions


def _stop_at(faults: Sequence[str]) -> None:
    if faults:
        sys.exit("\n".join(faults))


def main() -> None:
    """Check versions and interfaces, start vLLM, check its cache tensors."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", help="folder of the model")
    parser.add_argument("--layers", type=int, required=True)
    parser.add_argument("--key-elements", type=int, required=True, help="kv heads times their size")
    parser.add_argument("--dtype", default="bfloat16")
    words = parser.parse_args()
    _stop_at(version_faults(_installed(), os.environ))

    import flashinfer
    import vllm
    import vllm.config.cache

    plan = flashinfer.BatchDecodeWithPagedKVCacheWrapper.plan
    _stop_at(interface_faults(plan, vllm.config.cache))
    engine = vllm.LLM(
        model=words.model,
        dtype=words.dtype,
        kv_cache_dtype=(KEYS, VALUES),
        attention_config={"backend": BACKEND},
    )
    for caches in engine.collective_rpc(described_caches):  # of each worker
        _stop_at(cache_faults(caches, layers=words.layers, key_elements=words.key_elements))
        total = sum(sum(cache["bytes"]) for cache in caches)
        print(
            f"{len(caches)} layers, keys {caches[0]['dtypes'][0]}, values {NARROW}, {total} bytes"
        )


if __name__ == "__main__":
    main()
