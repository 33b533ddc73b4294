"""Interceptor of Flax methods: puts together what one attention was given and gave."""

import sys
from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax

from assay.captures.jax import sites, trace
from assay.captures.jax.forward_pass import ForwardPass, active
from assay.captures.jax.functions import AttentionCore, CoreDetector, from_attend
from assay.captures.jax.traced_call import TracedCall
from assay.captures.manifest import HEADED, Phase, Scalar

_UNSEEN = "not seen: no attend(q, k, v), jax.nn.dot_product_attention or pair of einsum"


class FlaxInterceptor:
    """Recognises the attentions of one model and emits their calls."""

    def __init__(
        self,
        model: nn.Module | type | None,
        is_attention: Callable[[nn.Module], bool],
        *,
        scale: float | None,
    ) -> None:
        self._model = model
        self._is_attention = is_attention
        self._scale = scale
        self._without_scale: set[str] = set()  # sites that were pointed out

    def description(self) -> str:
        """Sentence on what is looked for, for a user who found nothing captured."""
        kind = self._model if isinstance(self._model, type) else type(self._model)
        of = "any Flax model" if self._model is None else f"{kind.__name__} with these fields"
        return (
            f"looked in {of} for modules with Attention in the name of their class; name others "
            "with attention=CLASS"
        )

    def intercept(self, capture: Any, call: Callable, args: Any, kwargs: Any, context: Any) -> Any:
        """Run a method of a module by `call`, as part of a forward pass of the capture."""
        module = context.module
        if capture not in active.captures or module.scope is None or module.is_initializing():
            return call(*args, **kwargs)
        if trace.rehearsing():
            return call(*args, **kwargs)
        passes = [each for each in active.passes if each.capture is capture]
        if passes:
            return self._in_pass(passes[-1], call, args, kwargs, context)
        with capture.forward_pass() as forward_pass:
            return self._in_pass(forward_pass, call, args, kwargs, context)

    def see_alone(self, forward_pass: ForwardPass, core: AttentionCore) -> None:
        """Emit a core that the running module, which is no attention, has computed itself."""
        if forward_pass.modules and forward_pass.model_depth:
            phase: Phase = "train" if trace.differentiating() else "eval"
            self._emit(forward_pass, forward_pass.modules[-1], {}, {}, {}, core, phase=phase)

    def _in_pass(
        self, forward_pass: ForwardPass, call: Callable, args: Any, kwargs: Any, context: Any
    ) -> Any:
        module, method = context.module, context.method_name
        if not forward_pass.modules:
            forward_pass.begin_model()
        matches = sites.is_model(module, self._model)
        forward_pass.modules.append(module)
        forward_pass.model_depth += matches
        try:
            if not forward_pass.model_depth:
                return call(*args, **kwargs)
            if method == "__call__" and self._is_attention(module):
                return self._attention(forward_pass, call, args, kwargs, context)
            result = call(*args, **kwargs)
            if method == "attend" and forward_pass.detectors:
                detector = forward_pass.detectors[-1]
                arguments = sites.arguments(context.orig_method, args, kwargs)
                detector.core = from_attend(arguments, result) or detector.core
            return result
        finally:
            forward_pass.model_depth -= matches
            forward_pass.modules.pop()

    def _attention(
        self, forward_pass: ForwardPass, call: Callable, args: Any, kwargs: Any, context: Any
    ) -> Any:
        arguments = sites.arguments(context.orig_method, args, kwargs)
        detector = CoreDetector()
        forward_pass.detectors.append(detector)
        try:
            result = call(*args, **kwargs)
        finally:
            forward_pass.detectors.pop()
        for outer in forward_pass.detectors:
            outer.saw_inner = True
        if not detector.saw_inner:  # else what it holds is the attention, and was emitted
            tensors, scalars = sites.inputs(arguments)
            phase = sites.phase(arguments, tensors, differentiated=trace.differentiating())
            core = detector.core or AttentionCore(
                tensors=sites.cached(result), implementation=None, scalars={"core": _UNSEEN}
            )
            outputs = sites.outputs(result)
            self._emit(forward_pass, context.module, tensors, scalars, outputs, core, phase=phase)
        return result

    def _emit(
        self,
        forward_pass: ForwardPass,
        module: nn.Module,
        inputs: dict[str, jax.Array],
        scalars: dict[str, Scalar],
        outputs: dict[str, jax.Array],
        core: AttentionCore,
        *,
        phase: Phase,
    ) -> None:
        site = sites.site_of(module)
        tensors = core.tensors | {n: x for n, x in inputs.items() if n not in core.tensors}
        scalars = scalars | core.scalars
        if self._scale is not None:
            scalars["scale"] = self._scale
        if "q" in tensors and "scale" not in scalars:
            self._point_out(site)
        mask = tensors.get("mask")
        if mask is not None and mask.dtype != bool and not core.adds_mask:
            # Flax masks are true where a query may attend, in any dtype; what is added is a bias.
            tensors["mask"], scalars["mask_dtype"] = mask != 0, mask.dtype.name
        call = TracedCall(
            site=site,
            phase=phase,
            implementation=core.implementation,
            scalars=tuple(scalars.items()),
            orders=tuple((name, core.order) for name in HEADED if name in core.tensors),
            number=forward_pass.count(site),
            countable=forward_pass.countable(),
        )
        forward_pass.sink.emit(call, forward_pass.position(site), tensors | outputs)

    def _point_out(self, site: str) -> None:
        """Tell at once, and once, of a site whose records cannot be replayed as they are."""
        if not self._without_scale:
            print(
                f"assay: {site} makes its scores by einsum, which does not show their scale: "
                "capture with scale=NUMBER, or replay with `assay replay --scale NUMBER` (1 where "
                "q is scaled before)",
                file=sys.stderr,
            )
        self._without_scale.add(site)
