"""Imports Triton ahead of time, so that processes forked afterwards have it already.

The first launch of a kernel otherwise spends 3 s in every process, on an H200, on these imports and
on a digest of Triton's files. No device is touched.
"""

# ruff: noqa: F401 - imported to be there

import torch._dynamo  # by the first call of an operator of torch.library
import triton.experimental.gluon
import triton.language
from triton.runtime.cache import triton_key

triton_key()  # a digest of all of Triton's files, which it keeps
