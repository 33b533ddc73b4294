"""Watching operators in torch's dispatcher without its compiler.

For each class of its kind torch imports Dynamo, 2 s, only to leave that class out of compiling.
"""

from torch.utils._python_dispatch import TorchDispatchMode


class OperatorWatch(TorchDispatchMode):
    """A mode whose `__torch_dispatch__` sees every operator; it is not for compiled code."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False
