"""Follows a running torch model and hands over one record for each attention call that is wanted.

Hooks, the function mode, transformers' table and compiled programs all report here, and what
belongs to one call is put together. What activation checkpointing computes again comes while a
backward pass runs: then nothing is heard.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from assay.captures.recording import Recording
from assay.captures.torch.call import Scalars, Tensors
from assay.captures.torch.copies import is_real
from assay.captures.torch.draft import Draft
from assay.captures.torch.sites import Site, Sites
from assay.captures.torch.summing import Summing

_LIKE_K = "it is the first {} positions of {}"


class Taking:
    """The state of one capture of one model, whose number compiled programs know."""

    def __init__(self, recording: Recording, sites: Sites, model: int) -> None:
        self.sites = sites
        self.model = model
        self.asking = 0  # calls through transformers' table that are running
        self._recording = recording
        self._summing = Summing()
        self._step = -1
        self._counts_steps = True
        self._depth = 0
        self._training: bool | None = None
        self._open: list[tuple[Site, Draft | None]] = []
        self._calls: Counter[int] = Counter()
        self._wanted: dict[int, bool] = {}

    @property
    def step(self) -> int:
        """Of the model's call that is running, or was last."""
        return max(self._step, 0)

    def set_step(self, number: int) -> None:
        """Count no more: this is the step until it is set again."""
        self._counts_steps = False
        self._begin_step(number)

    def begin_model(self, *, training: bool) -> None:
        """The whole model is called."""
        if recomputing():
            return
        self._depth += 1
        if self._depth == 1:
            self._training = training
            if self._counts_steps:
                self._begin_step(self._step + 1)

    def end_model(self) -> bool:
        """It ends; whether that was the outermost call."""
        if recomputing():
            return False
        self._depth = max(self._depth - 1, 0)
        if not self._depth:
            self._training, self.asking = None, 0
            self._open.clear()
            self._summing.send()
        return not self._depth

    def close(self) -> None:
        """Nothing more will come."""
        self._open.clear()
        self._summing.send()

    def needs_mode(self) -> bool:
        """Whether something wanted in this step is seen by the function mode alone."""
        if recomputing():
            return False
        hooked = self.sites.hooked
        return not hooked or any(self.wants(s) and not s.asks_transformers for s in hooked)

    def wants(self, site: Site) -> bool:
        """Whether calls of a site are captured in this step."""
        found = self._wanted.get(site.number)
        if found is None:
            found = self._recording.wants(step=self.step, layer=site.layer, site=site.path)
            self._wanted[site.number] = found
        return found

    def enter(self, site: Site, tensors: Tensors, past: int | None, *, cached: bool) -> None:
        """A site begins, with what its module was given."""
        if recomputing():
            return
        draft = self._new_draft(site, tensors) if self.wants(site) else None  # told by programs
        self._open.append((site, draft))
        if draft is not None:
            draft.cached, draft.past = cached, past
            draft.add_layer(_to_keep(draft, site, tensors, past))

    def enter_unwanted(self, site: Site) -> None:
        """A site begins that is not captured: calls inside it are of no interest either."""
        if not recomputing():
            self._open.append((site, None))

    def leave(self, site: Site, out: Tensor | None) -> None:
        """A site ends, with what its module gave; None where it failed."""
        if recomputing() or all(one is not site for one, _ in self._open):
            return
        found, draft = self._open.pop()
        while found is not site:  # those inside it that failed
            found, draft = self._open.pop()
        if draft is None or out is None:
            return
        site.learn(gives_calls=draft.called)
        if self._recording.options.outputs:
            draft.add_layer({"layer_out": out})
        self._put(draft, site)

    def begin_call(self, query: Tensor, module: nn.Module | None = None) -> Draft | None:
        """The record of an attention call that begins; None where it is not wanted."""
        if recomputing() or self.asking or not is_real(query):
            return None
        if self._open:
            site, draft = self._open[-1]
            if draft is not None and draft.called:  # a second call inside one module
                self._put(draft, site)
                draft = self._new_draft(site, {"q": query})
                self._open[-1] = site, draft
            return draft
        found = module or self.sites.calling()
        return None if found is None else self._loose_draft(self.sites.of(found), query)

    def end_call(self, draft: Draft, out: Tensor) -> None:
        """It gave `out`."""
        if self._recording.options.outputs:
            draft.add_out(out)
        if not self._open:
            self._put(draft, None)

    @contextmanager
    def one_call(self) -> Iterator[None]:
        """What is called inside is part of a call that is known already."""
        self.asking += 1
        try:
            yield
        finally:
            self.asking -= 1

    def heard(
        self, moment: str, site: int, tensors: Tensors, scalars: Scalars, past: int | None
    ) -> None:
        """A compiled program tells what a hook would have."""
        if moment == "model begins":
            self.begin_model(training=bool(scalars["training"]))
        elif moment == "model ends":
            self.end_model()
        elif moment == "site begins":
            self.enter(self.sites[site], tensors, past, cached=bool(scalars["cached"]))
        elif moment == "site ends":
            self.leave(self.sites[site], tensors.get("layer_out"))
        elif moment == "table is asked":
            self.asking += not recomputing()
        else:
            assert moment in ("table answers", "call"), moment
            if moment == "table answers":
                self.asking -= not recomputing()
            self._heard_call(tensors, scalars)

    def _heard_call(self, tensors: Tensors, scalars: Scalars) -> None:
        out = tensors.pop("out")
        if not self._depth or recomputing():
            return  # another model's
        if self._open:
            draft = self.begin_call(tensors["q"])
        else:
            draft = None if self.asking else self._loose_draft(self.sites.unknown, tensors["q"])
        if draft is not None:
            draft.add_call(tensors, scalars, {})
            self.end_call(draft, out)

    def _begin_step(self, number: int) -> None:
        if number != self._step:
            self._step = number
            self._calls.clear()
            self._wanted.clear()

    def _loose_draft(self, site: Site, query: Tensor) -> Draft | None:
        """Of a call outside of any module that is hooked."""
        return self._new_draft(site, {"q": query}) if self.wants(site) else None

    def _new_draft(self, site: Site, tensors: Tensors) -> Draft | None:
        if not all(is_real(tensor) for tensor in tensors.values()):
            return None
        key = self._recording.key(
            step=self.step, layer=site.layer, site=site.path, call=self._calls[site.number]
        )
        self._calls[site.number] += 1
        full = self._recording.options.mode == "full"
        nbytes = sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
        if self._recording.turned_away(key, nbytes if full else 0):
            return None
        return Draft(key, self._recording.options, self._summing)

    def _put(self, draft: Draft, site: Site | None) -> None:
        training = self._training
        if training is None:  # a part of the model was called by itself
            training = torch.is_grad_enabled() and bool(site and site.module.training)
        self._recording.put(draft.taken(training=training))
        if not self._depth:
            self._summing.send()


def recomputing() -> bool:
    """Whether a backward pass runs this: only activation checkpointing computes forward then."""
    return torch._C._current_graph_task_id() != -1


def _to_keep(draft: Draft, site: Site, tensors: Tensors, past: int | None) -> Tensors:
    """Of what a module was given, that which the call inside it will not show again."""
    kept = dict(tensors)
    if past is not None and "x" in tensors:
        kept["cache.idx"] = torch.full((len(tensors["x"]),), past)
    if not site.gives_calls:
        return kept
    kept.pop("mask", None)
    for name in ("cache.k", "cache.v"):
        if name in kept:
            held = kept.pop(name)
            positions = held.shape[-2] if past is None else past
            draft.leave_out(name, held, _LIKE_K.format(positions, name[-1]))
    return kept
