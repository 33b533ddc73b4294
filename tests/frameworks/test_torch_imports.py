"""What torch's instruments import: not its compiler, which takes seconds in each cell."""

import subprocess
import sys

from tests.new_process import environment

INSTRUMENTS = """
import sys
import torch
from assay.frameworks import torch as framework
from assay.frameworks.torch.counting import counted

q, k, v = (torch.randn(1, 2, 8, 4) for _ in range(3))
call = torch.nn.functional.scaled_dot_product_attention
assert any("attention" in each.name for each in framework.operations(call, (q, k, v)))
assert framework.input_copies(call, (q, k, v)).value == 0
assert framework.counted_peak(lambda: call(q, k, v)).value > 0
assert counted(lambda: q @ k.mT)
print(sorted({"torch._dynamo", "torch._inductor"} & set(sys.modules)))
"""


def test_instruments_of_torch_import_no_compiler():
    command = [sys.executable, "-c", INSTRUMENTS]
    out = subprocess.check_output(command, env=environment(), text=True)
    assert out.strip() == "[]"
