"""Looks on while Flax methods run, and puts together what one attention was given and gave."""

from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax

from assay.captures.jax import sites, trace
from assay.captures.jax.call import AttentionCall
from assay.captures.jax.cores import Core, Watch, from_attend
from assay.captures.jax.frame import Frame, here
from assay.captures.manifest import Phase, Scalar

_CORE = ("q", "k", "v", "out")
_UNSEEN = "not seen: no attend(q, k, v), jax.nn.dot_product_attention or pair of einsum"


class Observer:
    """What one capture looks for, and what it makes of it."""

    def __init__(
        self,
        model: nn.Module | type | None,
        is_attention: sites.Chooser,
        *,
        scale: float | None,
    ) -> None:
        self.model = model
        self._is_attention = is_attention
        self._scale = scale

    def looked_for(self) -> str:
        """What is no attention, or not of the model, is passed over: what would have been taken."""
        kind = self.model if isinstance(self.model, type) else type(self.model)
        of = "any Flax model" if self.model is None else f"{kind.__name__} with these fields"
        return (
            f"looked in {of} for modules with Attention in the name of their class; name others "
            "with attention=CLASS"
        )

    def intercept(self, owner: Any, call: Callable, args: Any, kwargs: Any, context: Any) -> Any:
        """A method of a module is called: `call` runs it."""
        module = context.module
        if owner not in here.captures or module.scope is None or module.is_initializing():
            return call(*args, **kwargs)
        if trace.rehearsing():
            return call(*args, **kwargs)
        mine = [frame for frame in here.frames if frame.owner is owner]
        if mine:
            return self._in_frame(mine[-1], call, args, kwargs, context)
        with owner.frame() as frame:
            return self._in_frame(frame, call, args, kwargs, context)

    def alone(self, frame: Frame, core: Core) -> None:
        """A core that the module now running, which is no attention, has computed itself."""
        if frame.modules and frame.inside:
            phase: Phase = "train" if trace.differentiating() else "eval"
            self._emit(frame, frame.modules[-1], {}, {}, {}, core, phase=phase)

    def _in_frame(self, frame: Frame, call: Callable, args: Any, kwargs: Any, context: Any) -> Any:
        module, method = context.module, context.method_name
        if not frame.modules:
            frame.begin_model()
        matches = sites.is_model(module, self.model)
        frame.modules.append(module)
        frame.inside += matches
        try:
            if not frame.inside:
                return call(*args, **kwargs)
            if method == "__call__" and self._is_attention(module):
                return self._attention(frame, call, args, kwargs, context)
            result = call(*args, **kwargs)
            if method == "attend" and frame.watches:
                given = sites.arguments(context.orig_method, args, kwargs)
                frame.watches[-1].core = from_attend(given, result) or frame.watches[-1].core
            return result
        finally:
            frame.inside -= matches
            frame.modules.pop()

    def _attention(self, frame: Frame, call: Callable, args: Any, kwargs: Any, context: Any) -> Any:
        given = sites.arguments(context.orig_method, args, kwargs)
        watch = Watch()
        frame.watches.append(watch)
        try:
            result = call(*args, **kwargs)
        finally:
            frame.watches.pop()
        for outer in frame.watches:
            outer.held_other = True
        if not watch.held_other:  # else what it holds is the attention, and was taken
            tensors, scalars = sites.inputs(given)
            phase = sites.phase(given, tensors, differentiated=trace.differentiating())
            core = watch.core or _without_core(result)
            outputs = sites.outputs(result)
            self._emit(frame, context.module, tensors, scalars, outputs, core, phase=phase)
        return result

    def _emit(
        self,
        frame: Frame,
        module: nn.Module,
        inputs: dict[str, jax.Array],
        scalars: dict[str, Scalar],
        outputs: dict[str, jax.Array],
        core: Core,
        *,
        phase: Phase,
    ) -> None:
        site = sites.site_of(module)
        tensors = core.tensors | {n: x for n, x in inputs.items() if n not in core.tensors}
        told = scalars | core.scalars
        if self._scale is not None:
            told["scale"] = self._scale
        mask = tensors.get("mask")
        if mask is not None and mask.dtype != bool and not core.adds_mask:
            # Flax masks are true where a query may attend, in any dtype; what is added is a bias.
            tensors["mask"], told["mask_dtype"] = mask != 0, mask.dtype.name
        call = AttentionCall(
            site=site,
            phase=phase,
            implementation=core.implementation,
            scalars=tuple(told.items()),
            orders=tuple((name, core.order) for name in _CORE if name in core.tensors),
            number=frame.count(site),
            countable=frame.countable(),
        )
        frame.sink.emit(call, frame.place(site), tensors | outputs)


def _without_core(result: Any) -> Core:
    """What the returned cache tells of k and v, where the core was not seen."""
    return Core(
        tensors=sites.cached(result),
        order="BSHD",
        implementation=None,
        scalars={"core": _UNSEEN},
    )
