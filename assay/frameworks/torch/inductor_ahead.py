"""Imports torch's compiler ahead of time, so that processes forked afterwards have it already.

The first call of a compiled function otherwise spends 4 s in every process, on an H200, on these
imports and on a digest of torch's files.

Set PYTORCH_NVML_BASED_CUDA_CHECK before importing this: without it the import asks CUDA for a
device, and no fork can use one after that. With it no device is touched.
"""

# ruff: noqa: F401 - imported to be there

import torch._functorch.aot_autograd
import torch._inductor.compile_fx
from torch._inductor.codecache import torch_key

import assay.frameworks.torch.triton_ahead

torch_key()  # a digest of all of torch's Python files, which it keeps
