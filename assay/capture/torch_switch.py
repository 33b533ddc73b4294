"""When the function mode is on.

For models that run as written: during captured calls of the model, and only where attention is not
seen otherwise. As soon as torch.compile is in play it stays on: its presence is what makes compiled
programs tell contexts from the world outside, and they pay nothing for it.
"""

import threading
from typing import Any

import torch

from assay.capture import torch_modes
from assay.capture.torch_modes import SeesAttention


class Switch:
    """Switches one mode, in the thread that made it."""

    def __init__(self, mode: SeesAttention) -> None:
        self._mode = mode
        self._thread = threading.get_ident()
        self._is_on = False
        self._stays = False

    def open(self) -> None:
        """Watch for torch.compile."""
        from torch._dynamo import callback, convert_frame

        if convert_frame.FRAME_COUNTER:  # something was compiled before, perhaps this model
            self._stay()
        callback.on_compile_start(self._compiling)

    def close(self) -> None:
        """Leave no trace."""
        from torch._dynamo import callback

        callback.callback_handler.remove_start_callback(self._compiling)
        if self._is_on:
            torch_modes.remove(self._mode)
            self._is_on = self._stays = False

    def on(self) -> None:
        if not self._is_on and threading.get_ident() == self._thread:
            self._mode.__enter__()
            self._is_on = True

    def off(self) -> None:
        if self._is_on and not self._stays and threading.get_ident() == self._thread:
            torch_modes.remove(self._mode)
            self._is_on = False

    def _compiling(self, _: Any) -> None:
        """Called before torch.compile looks at which modes are on; not for backward passes, which
        have threads of their own."""
        if threading.get_ident() == self._thread and torch._C._current_graph_task_id() == -1:
            self._stay()

    def _stay(self) -> None:
        self._stays = True
        self.on()
