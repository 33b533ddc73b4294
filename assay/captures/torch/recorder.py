"""Recorder of a running torch model: one record for each attention call that is wanted.

Hooks, the function mode, transformers' interface and compiled programs all report here, and what
belongs to one call is put together. What activation checkpointing computes again comes while a
backward pass runs: then nothing is recorded.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from assay.captures.recording import Recording
from assay.captures.torch.record_builder import RecordBuilder
from assay.captures.torch.sites import Scalars, Site, Sites, Tensors
from assay.captures.torch.step_statistics import StepStatistics
from assay.captures.torch.transfer import has_values


class TorchRecorder:
    """State of one capture of one model; compiled programs know it by the number `model`."""

    def __init__(self, recording: Recording, sites: Sites, model: int) -> None:
        self.sites = sites
        self.model = model
        self._recording = recording
        self._statistics = StepStatistics()
        self._step = -1
        self._counts_steps = True
        self._depth = 0  # of running calls of the whole model
        self._call_depth = 0  # of running attention calls that are known already
        self._training: bool | None = None
        self._open: list[tuple[Site, RecordBuilder | None]] = []
        self._calls: Counter[int] = Counter()
        self._wanted: dict[int, bool] = {}

    @property
    def step(self) -> int:
        """Step of the model's call that is running, or was last."""
        return max(self._step, 0)

    def set_step(self, number: int) -> None:
        """Count no more: this is the step until it is set again."""
        self._counts_steps = False
        self._begin_step(number)

    def begin_model(self, *, training: bool) -> None:
        """Begin a call of the whole model."""
        if recomputing():
            return
        self._depth += 1
        if self._depth == 1:
            self._training = training
            if self._counts_steps:
                self._begin_step(self._step + 1)

    def end_model(self) -> bool:
        """End a call of the whole model; True if it was the outermost."""
        if recomputing():
            return False
        self._depth = max(self._depth - 1, 0)
        if not self._depth:
            self._training, self._call_depth = None, 0
            self.close()
        return not self._depth

    def close(self) -> None:
        """Forget sites that are open and send what is complete."""
        self._open.clear()
        self._statistics.send()

    def needs_mode(self) -> bool:
        """True where only the function mode sees something that is wanted in this step."""
        if recomputing():
            return False
        hooked = self.sites.hooked
        return not hooked or any(self.wants(s) and not s.uses_interface for s in hooked)

    def wants(self, site: Site) -> bool:
        """True where calls of a site are captured in this step."""
        wanted = self._wanted.get(site.number)
        if wanted is None:
            wanted = self._recording.wants(step=self.step, layer=site.layer, site=site.path)
            self._wanted[site.number] = wanted
        return wanted

    def enter_site(
        self,
        site: Site,
        tensors: Tensors | None = None,
        past: int | None = None,
        *,
        cached: bool = False,
    ) -> None:
        """Begin a call of a site's module, with its inputs; None where they are not wanted."""
        if recomputing():
            return
        wanted = tensors is not None and self.wants(site)
        builder = self._new_builder(site, tensors) if wanted else None
        self._open.append((site, builder))
        if builder is not None:
            builder.cached, builder.past = cached, past
            builder.add_layer(_kept_inputs(builder, site, tensors, past))

    def leave_site(self, site: Site, out: Tensor | None) -> None:
        """End a call of a site's module, with its output; None where there is none."""
        if recomputing() or all(other is not site for other, _ in self._open):
            return
        last, builder = self._open.pop()
        while last is not site:  # those inside it that failed
            last, builder = self._open.pop()
        if builder is None or out is None:
            return
        site.learn(calls_visible=builder.has_call)
        if self._recording.options.outputs:
            builder.add_layer({"layer_out": out})
        self._put(builder, site)

    def begin_call(self, query: Tensor, module: nn.Module | None = None) -> RecordBuilder | None:
        """Begin an attention call; the record to add it to, None where it is not wanted."""
        if recomputing() or self._call_depth or not has_values(query):
            return None
        if self._open:
            site, builder = self._open[-1]
            if builder is not None and builder.has_call:  # a second call inside one module
                self._put(builder, site)
                builder = self._new_builder(site, {"q": query})
                self._open[-1] = site, builder
            return builder
        module = module or self.sites.on_stack()
        return None if module is None else self._unhooked_builder(self.sites.of(module), query)

    def end_call(self, builder: RecordBuilder, out: Tensor) -> None:
        """End an attention call, with its result."""
        if self._recording.options.outputs:
            builder.add_out(out)
        if not self._open:
            self._put(builder, None)

    @contextmanager
    def within_call(self) -> Iterator[None]:
        """Attention calls inside this are parts of one that is known already."""
        self._call_depth += 1
        try:
            yield
        finally:
            self._call_depth -= 1

    def receive(
        self, event: str, site: int, tensors: Tensors, scalars: Scalars, past: int | None
    ) -> None:
        """Take from a compiled program what a hook would have reported."""
        if event == "model begins":
            self.begin_model(training=bool(scalars["training"]))
        elif event == "model ends":
            self.end_model()
        elif event == "site begins":
            self.enter_site(self.sites[site], tensors, past, cached=bool(scalars["cached"]))
        elif event == "site ends":
            self.leave_site(self.sites[site], tensors.get("layer_out"))
        elif event == "interface begins":
            self._call_depth += not recomputing()
        else:
            assert event in ("interface ends", "call"), event
            if event == "interface ends":
                self._call_depth -= not recomputing()
            self._receive_call(tensors, scalars)

    def _receive_call(self, tensors: Tensors, scalars: Scalars) -> None:
        out = tensors.pop("out")
        if not self._depth or recomputing():
            return  # another model's
        if self._open:
            builder = self.begin_call(tensors["q"])
        elif self._call_depth:
            builder = None
        else:
            builder = self._unhooked_builder(self.sites.unknown, tensors["q"])
        if builder is not None:
            builder.add_call(tensors, scalars, {})
            self.end_call(builder, out)

    def _begin_step(self, number: int) -> None:
        if number != self._step:
            self._step = number
            self._calls.clear()
            self._wanted.clear()

    def _unhooked_builder(self, site: Site, query: Tensor) -> RecordBuilder | None:
        """Record of a call outside of any module that is hooked."""
        return self._new_builder(site, {"q": query}) if self.wants(site) else None

    def _new_builder(self, site: Site, tensors: Tensors) -> RecordBuilder | None:
        if not all(has_values(tensor) for tensor in tensors.values()):
            return None
        key = self._recording.key(
            step=self.step, layer=site.layer, site=site.path, call=self._calls[site.number]
        )
        self._calls[site.number] += 1
        full = self._recording.options.mode == "full"
        nbytes = sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
        if self._recording.turned_away(key, nbytes if full else 0):
            return None
        return RecordBuilder(key, self._recording.options, self._statistics)

    def _put(self, builder: RecordBuilder, site: Site | None) -> None:
        training = self._training
        if training is None:  # a part of the model was called by itself
            training = torch.is_grad_enabled() and bool(site and site.module.training)
        self._recording.put(builder.build(training=training))
        if not self._depth:
            self._statistics.send()


def recomputing() -> bool:
    """True while a backward pass runs: only activation checkpointing computes forward then."""
    return torch._C._current_graph_task_id() != -1


def _kept_inputs(builder: RecordBuilder, site: Site, tensors: Tensors, past: int | None) -> Tensors:
    """Inputs of a module that the attention call inside it will not show again."""
    kept = dict(tensors)
    if past is not None and "x" in tensors:
        kept["cache.idx"] = torch.full((len(tensors["x"]),), past)
    if not site.calls_visible:
        return kept
    kept.pop("mask", None)
    for name in ("cache.k", "cache.v"):
        if name in kept:
            cache = kept.pop(name)
            positions = cache.shape[-2] if past is None else past
            builder.leave_out(name, cache, f"it is the first {positions} positions of {name[-1]}")
    return kept
