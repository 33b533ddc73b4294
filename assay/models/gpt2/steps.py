"""The one registry of steps: what an ablation calls a model, and the variant and options it means.

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
    """One step. What it is `wanting` is a part of its meaning that nothing here does yet."""

    id: str
    variant: str
    description: str
    options: Mapping[str, Any] = field(default_factory=dict)
    family: Family = "named"
    aliases: tuple[str, ...] = ()
    baseline: bool = False
    wanting: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        return (self.id, *self.aliases)


def _named(id: str, variant: str, description: str, **rest: Any) -> Step:
    return Step(id=id, variant=variant, description=description, **rest)


def _ratio(number: int, variant: str, description: str, wanting: str = "", **options: Any) -> Step:
    """A step of the RATIO ablation. MLP widths are whole numbers, and only where a variant says MLA
    is there a latent: the historical runs had one in every step but 0 and 1."""
    return Step(
        id=str(number),
        aliases=(f"RATIO{number}",),
        variant=variant,
        description=description,
        options=options,
        family="ratio",
        baseline=number == 0,
        wanting=wanting,
    )


# Keys and values of the RATIO steps had a latent each; its attention was added within a window.
_LATENT: dict[str, Any] = {"d_latent": 128}
_BAND: dict[str, Any] = {"ra_alpha": 0.3, "ra_window": 64}
_TOPK: dict[str, Any] = {"ct_mode": "topk", "ct_k": 8, "ct_alpha": 0.2}

STEPS: tuple[Step, ...] = (
    _named("B", "GPT2", "the baseline", baseline=True),
    _named(
        "RA",
        "GPT2_RA",
        "q and k exchanged in the late half: a null control",
        options={"ra_layers": "late"},
        aliases=("RALATE",),
    ),
    _named("RANONE", "GPT2_RA", "exchanged nowhere", options={"ra_layers": "none"}),
    _named("RAEARLY", "GPT2_RA", "exchanged in the early half", options={"ra_layers": "early"}),
    _named("RAALL", "GPT2_RA", "exchanged everywhere", options={"ra_layers": "all"}),
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
    _ratio(0, "GPT2", "the baseline", mlp_width=3072),
    _ratio(
        1,
        "GPT2",
        "the baseline, half of its weights pruned",
        mlp_width=3072,
        wanting="pruning comes with the trainer: until then this is step 0",
    ),
    _ratio(2, "GPT2", "attention to MLP as 1 to 2.5", mlp_width=3840),
    _ratio(3, "GPT2_MG", "with the attention gate of the MLP", mlp_width=3264),
    _ratio(4, "GPT2_MG_MX", "with gate and cross token", mlp_width=3072),
    _ratio(5, "GPT2_RABAND", "reciprocal attention", mlp_width=3072, **_BAND),
    _ratio(6, "GPT2_RABAND", "5 with the MLP of 2", mlp_width=3840, **_BAND),
    _ratio(7, "GPT2_RABAND_MG_MX", "5 with gate and cross token", mlp_width=3072, **_BAND),
    _ratio(8, "GPT2_MLA2", "latents", mlp_width=3072, **_LATENT),
    _ratio(9, "GPT2_MLA2", "8, attention to MLP as 1 to 2.5", mlp_width=2560, **_LATENT),
    _ratio(10, "GPT2_MLA2_MG_MX", "9 with gate and cross token", mlp_width=2048, **_LATENT),
    _ratio(11, "GPT2_MLA2_RABAND", "9 with reciprocity", mlp_width=2560, **_LATENT, **_BAND),
    _ratio(
        12,
        "GPT2_MLA2_RABAND_MG_MX",
        "11 with gate and cross token",
        mlp_width=2048,
        **_LATENT,
        **_BAND,
    ),
    _ratio(13, "GPT2_RACT", "cross-token gate", mlp_width=3072, ct_apply="output", **_TOPK),
    _ratio(
        14,
        "GPT2_MLA2_RACT",
        "9 with the cross-token gate",
        mlp_width=2560,
        ct_apply="output",
        **_LATENT,
        **_TOPK,
    ),
    _ratio(
        15,
        "GPT2_MLA2_RABAND_RACT",
        "11 with the cross-token gate",
        mlp_width=2560,
        ct_apply="output",
        **_LATENT,
        **_BAND,
        **_TOPK,
    ),
    _ratio(
        16,
        "GPT2_MLA2_RABAND_RACT_MG_MX",
        "12 with the cross-token gate",
        mlp_width=2048,
        ct_apply="output",
        **_LATENT,
        **_BAND,
        **_TOPK,
    ),
    _ratio(
        17,
        "GPT2_RACT",
        "13 with the gate on the weights",
        mlp_width=3072,
        ct_apply="weights",
        **_TOPK,
    ),
    _ratio(
        18,
        "GPT2_RACT",
        "13 by entropy",
        mlp_width=3072,
        ct_mode="entropy",
        ct_apply="output",
        ct_alpha=0.2,
    ),
)


def find(name: str) -> tuple[Step, str]:
    """The step called `name`, and a warning to print, empty where there is none.

    Names are taken as they are first; only then is a trailing 0 or 1 taken off, as old scripts
    write it behind named steps: MLAKV2 is a step, MLAKV20 is that step with a suffix.
    """
    by_name = {known: step for step in STEPS for known in step.names}
    if name in by_name:
        return by_name[name], ""
    stripped = by_name.get(name[:-1]) if name.endswith(_SUFFIXES) else None
    if stripped and stripped.family == "named":
        return stripped, f"step {name}: the trailing {name[-1]} means nothing; write {name[:-1]}"
    ids = ", ".join(step.id for step in STEPS)
    raise BadInput(f"there is no step {name!r}; {_guess(name)}the steps are {ids}")


def _guess(name: str) -> str:
    lower = {known.lower(): known for step in STEPS for known in step.names}
    close = difflib.get_close_matches(name.lower(), lower, n=_MOST_GUESSES)
    return f"did you mean {' or '.join(lower[found] for found in close)}? " if close else ""


def page() -> str:
    """The text of docs/models-steps.md."""
    return _PAGE.format(rows="\n".join(_row(step) for step in STEPS))


def _row(step: Step) -> str:
    told = step.description + (f" ({step.wanting})" if step.wanting else "")
    options = f"`{format_options(step.options)}`" if step.options else ""
    return f"| {step.id} | {', '.join(step.aliases)} | `{step.variant}` | {options} | {told} |"


_PAGE = """\
# Steps of the GPT-2 family

For people who run ablations: what each step builds. Made from the registry by
`python -m assay.models.gpt2.steps`, not by hand. Options that are not named have the defaults that
[their parts](../assay/models/gpt2/parts/__init__.py) declare, and `assay list parts` shows.
`assay check --models STEP` examines a step; `named`, `ratio` and `all` stand for many, and a variant
may carry options of its own: `GPT2_RACT+ct_mode=max+ct_k=4`. A trailing 0 or 1 behind a named step, as old scripts write it, is
taken off with a warning.

| step | also | variant | options | what it is |
|---|---|---|---|---|
{rows}

In the RATIO steps, 0 to 18, widths are whole numbers and only variants with MLA have a latent. The
historical runs had one in all steps but 0 and 1, and their dense MLPs stayed at 3072.
"""


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
