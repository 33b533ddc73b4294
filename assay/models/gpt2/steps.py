"""The registry of steps: the names that ablations have for models, each a variant with options.

Selections, defconfigs, dry runs and the table in docs/models-steps.md are all made from STEPS. The
options are those of GPT-2 124M. Nothing here needs torch.

    python -m assay.models.gpt2.steps        writes docs/models-steps.md again, after an edit here
"""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from assay.errors import BadInput
from assay.models.gpt2.config import format_options

Family = Literal["named", "ratio"]
PAGE = Path(__file__).parents[3] / "docs" / "models-steps.md"
_SUFFIXES = ("0", "1")  # once a learning rate; they have had no meaning for a long time
_MOST_GUESSES = 3


@dataclass(frozen=True, kw_only=True)
class Step:
    """One step: a variant with options, by its names."""

    id: str
    variant: str
    description: str
    options: Mapping[str, Any] = field(default_factory=dict)
    family: Family = "named"
    aliases: tuple[str, ...] = ()
    baseline: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        return (self.id, *self.aliases)


def _named(id: str, variant: str, description: str, **rest: Any) -> Step:
    return Step(id=id, variant=variant, description=description, **rest)


def _swapped(id: str, layers: str, description: str, *aliases: str) -> Step:
    """A step of the fixed reciprocal form, which exchanges q and k in some layers."""
    return _named(id, "GPT2_RA", description, options={"ra_layers": layers}, aliases=aliases)


def _ratio(number: int, mlp_width: int, variant: str, description: str, **options: Any) -> Step:
    """A step of the RATIO ablation. MLP widths are whole numbers, and only where a variant says MLA
    is there a latent: the historical runs had one in every step but 0 and 1."""
    return Step(
        id=str(number),
        aliases=(f"RATIO{number}",),
        variant=variant,
        description=description,
        options={"mlp_width": mlp_width, **options},
        family="ratio",
        baseline=number == 0,
    )


# Keys and values of the RATIO steps had a latent each; its attention was added within a window.
_LATENT: dict[str, Any] = {"d_latent": 128}
_BAND: dict[str, Any] = {"ra_alpha": 0.3, "ra_window": 64}
_GATE: dict[str, Any] = {"ct_mode": "topk", "ct_k": 8, "ct_alpha": 0.2, "ct_apply": "output"}
_ON_WEIGHTS: dict[str, Any] = {**_GATE, "ct_apply": "weights"}
_BY_ENTROPY: dict[str, Any] = {"ct_mode": "entropy", "ct_alpha": 0.2, "ct_apply": "output"}

STEPS: tuple[Step, ...] = (
    _named("B", "GPT2", "the baseline", baseline=True),
    _swapped("RA", "late", "q and k exchanged in the late half: a null control", "RALATE"),
    _swapped("RANONE", "none", "exchanged nowhere"),
    _swapped("RAEARLY", "early", "exchanged in the early half"),
    _swapped("RAALL", "all", "exchanged everywhere"),
    _named("RALEARN", "GPT2_RALEARN", "a learned mix of both views in each layer"),
    _named("RAMIX", "GPT2_RAMIX", "scores mixed with their transpose, by head"),
    _named("RABAND", "GPT2_RABAND", "transposed scores added within a window"),
    _named("RAVIEW", "GPT2_RAVIEW", "a gated extra view in some layers"),
    _named("RACT", "GPT2_RACT", "a gate on each row by how sharp its attention is"),
    _named("GATE", "GPT2_GATE", "a gate on the output of the attention"),
    _named("M", "GPT2_M", "the narrow MLP, MLPSplice"),
    _named("MG", "GPT2_MG", "the MLP gates the next attention"),
    _named("MX", "GPT2_MX", "the MLP reads other tokens by the attention's weights"),
    _named("MR", "GPT2_MR", "the MLP and the next attention exchange what they know"),
    _named("MLA", "GPT2_MLA", "keys and values from one latent"),
    _named("MLA2", "GPT2_MLA2", "keys and values from a latent each"),
    _named("MLAROPE", "GPT2_MLA_ROPE", "MLA with decoupled rotary positions"),
    _named("RAMLA", "GPT2_MLA_RA", "q too from the latent, exchanged in the late half"),
    _named("MLAKV", "GPT2_MLA_KV", "MLA whose latent is stored compressed"),
    _named("RAMLAKV", "GPT2_MLA_RA_KV", "RAMLA whose latent is stored compressed"),
    _named("RAMLAKVM", "GPT2_MLA_RA_KVM", "RAMLAKV with MLPSplice"),
    _named("MLAKV2", "GPT2_MLA_KV2", "two latents, each stored compressed"),
    _named("MLAKV2M", "GPT2_MLA_KV2M", "MLAKV2 with MLPSplice"),
    _ratio(0, 3072, "GPT2", "the baseline"),
    _ratio(1, 3072, "GPT2", "the baseline, half of its weights pruned in training", sparsity=0.5),
    _ratio(2, 3840, "GPT2", "attention to MLP as 1 to 2.5"),
    _ratio(3, 3264, "GPT2_MG", "with the attention gate of the MLP"),
    _ratio(4, 3072, "GPT2_MG_MX", "with gate and cross token"),
    _ratio(5, 3072, "GPT2_RABAND", "reciprocal attention", **_BAND),
    _ratio(6, 3840, "GPT2_RABAND", "5 with the MLP of 2", **_BAND),
    _ratio(7, 3072, "GPT2_RABAND_MG_MX", "5 with gate and cross token", **_BAND),
    _ratio(8, 3072, "GPT2_MLA2", "latents", **_LATENT),
    _ratio(9, 2560, "GPT2_MLA2", "8, attention to MLP as 1 to 2.5", **_LATENT),
    _ratio(10, 2048, "GPT2_MLA2_MG_MX", "9 with gate and cross token", **_LATENT),
    _ratio(11, 2560, "GPT2_MLA2_RABAND", "9 with reciprocity", **_LATENT | _BAND),
    _ratio(12, 2048, "GPT2_MLA2_RABAND_MG_MX", "11 with gate and cross token", **_LATENT | _BAND),
    _ratio(13, 3072, "GPT2_RACT", "cross-token gate", **_GATE),
    _ratio(14, 2560, "GPT2_MLA2_RACT", "9 with the cross-token gate", **_LATENT | _GATE),
    _ratio(
        15,
        2560,
        "GPT2_MLA2_RABAND_RACT",
        "11 with the cross-token gate",
        **_LATENT | _BAND | _GATE,
    ),
    _ratio(
        16,
        2048,
        "GPT2_MLA2_RABAND_RACT_MG_MX",
        "12 with the cross-token gate",
        **_LATENT | _BAND | _GATE,
    ),
    _ratio(17, 3072, "GPT2_RACT", "13 with the gate on the weights", **_ON_WEIGHTS),
    _ratio(18, 3072, "GPT2_RACT", "13 by entropy", **_BY_ENTROPY),
)


def find(name: str) -> tuple[Step, str]:
    """The step called `name`, and a warning to print, empty where there is none.

    Names are looked up as they are first; only then is a trailing 0 or 1 taken off, as old scripts
    write it behind named steps: MLAKV2 is a step, MLAKV20 is that step with a suffix.
    """
    by_name = {known: step for step in STEPS for known in step.names}
    if name in by_name:
        return by_name[name], ""
    step = by_name.get(name[:-1]) if name.endswith(_SUFFIXES) else None
    if step and step.family == "named":
        return step, f"step {name}: the trailing {name[-1]} means nothing; write {name[:-1]}"
    ids = ", ".join(step.id for step in STEPS)
    raise BadInput(f"there is no step {name!r}; {_guess(name)}the steps are {ids}")


def _guess(name: str) -> str:
    lower = {known.lower(): known for step in STEPS for known in step.names}
    close = difflib.get_close_matches(name.lower(), lower, n=_MOST_GUESSES)
    return f"did you mean {' or '.join(lower[guess] for guess in close)}? " if close else ""


def page() -> str:
    """The text of docs/models-steps.md."""
    return _PAGE.format(rows="\n".join(_row(step) for step in STEPS))


def _row(step: Step) -> str:
    options = f"`{format_options(step.options)}`" if step.options else ""
    entries = (step.id, ", ".join(step.aliases), f"`{step.variant}`", options, step.description)
    return f"| {' | '.join(entries)} |"


_PAGE = """\
# Steps of the GPT-2 family

For people who run ablations: what each step builds. Made from the registry by
`python -m assay.models.gpt2.steps`, not by hand. Options that are not named have the defaults that
[their parts](../assay/models/gpt2/parts/__init__.py) declare, and `assay list parts` shows.
`assay check --models STEP` examines a step; `named`, `ratio` and `all` stand for many, and a
variant may carry options of its own: `GPT2_RACT+ct_mode=max+ct_k=4`. A trailing 0 or 1 behind a
named step, as old scripts write it, is taken off with a warning.

<!-- set -->
| step | also | variant | options | what it is |
|---|---|---|---|---|
{rows}

In the RATIO steps, 0 to 18, widths are whole numbers and only variants with MLA have a latent. The
historical runs had one in all steps but 0 and 1, and their dense MLPs stayed at 3072.
"""


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
