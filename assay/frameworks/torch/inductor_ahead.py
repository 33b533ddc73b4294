"""What the first call of something compiled by torch imports and works out in every process, 4 s on
an H200: imported by a process that forks, it is there in its forks.

No device is touched where PYTORCH_NVML_BASED_CUDA_CHECK is set: without it the import asks CUDA for
a device, and no fork can use one after that.
"""

# ruff: noqa: F401 - imported to be there

import torch._functorch.aot_autograd
import torch._inductor.compile_fx
from torch._inductor.codecache import torch_key

import assay.frameworks.torch.triton_ahead

torch_key()  # a digest of all of torch's Python files, which it keeps
