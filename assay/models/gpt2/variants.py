"""Variants of GPT-2 by name: GPT2_MLA_RA_KVM is GPT-2 with the parts MLA, RA, KV and M.

A name is GPT2 and the tags of its parts, underscores between, in any order; a tag that JOINS may
stand at the end of another (KV2M). `from assay.models.gpt2.variants import GPT2_MLA_KV` gives a
class. Everything else here reads the text of the parts; only `build` runs one.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import combinations
from pathlib import Path
from typing import Any

from assay import plugins
from assay.errors import BadInput
from assay.models.gpt2.config import KIND, GPTConfig, ModelConfig, RA_MLA_Config, extended
from assay.models.gpt2.options import declared
from assay.plugins import Plugin

BASE = "GPT2"
# In the order in which a name has them. A slot takes one part; docs/models.md says what it offers.
SLOTS = (
    "kv",
    "positions",
    "reciprocal",
    "gating",
    "output",
    "mlp_gate",
    "mlp_cross",
    "mlp_latent",
    "splice",
    "latents",
    "mlp",
)
NAMED = (
    "GPT2",
    "GPT2_RA",
    "GPT2_MLA",
    "GPT2_MLA_RA",
    "GPT2_MLA_KV",
    "GPT2_MLA_RA_KV",
    "GPT2_MLA_KV2",
    "GPT2_MLA_KV2M",
    "GPT2_MLA_RA_KVM",
)
_JOINED = {"latents": ("splice", "kv"), "mlp": ("splice",)}  # slots whose word a tag ends
_LATENT_SLOT = "kv"
_DEFAULT_LATENT = "MLA"  # what fills it where a part needs a latent and none is named
_NULL_RECIPROCAL = "RA"


@dataclass(frozen=True, kw_only=True)
class Variant:
    """A sound composition of parts."""

    parts: Mapping[str, Plugin]  # by slot, in the order of SLOTS

    @property
    def tags(self) -> tuple[str, ...]:
        return tuple(part.literals["TAG"] for part in self.parts.values())

    @property
    def name(self) -> str:
        """The canonical name."""
        words: dict[str, str] = {}  # by slot
        for slot, part in self.parts.items():
            ended = [other for other in _JOINED.get(slot, ()) if other in self.parts]
            if part.literals["JOINS"] and ended:
                words[ended[0]] += part.literals["TAG"]
            else:
                words[slot] = part.literals["TAG"]
        return "_".join([BASE, *words.values()])

    @property
    def latent(self) -> bool:
        """True where keys and values come out of a latent, so that it takes an RA_MLA_Config."""
        return _LATENT_SLOT in self.parts

    @property
    def has_user_code(self) -> bool:
        """True with a part of the user's."""
        return not all(part.path.is_relative_to(plugins.PACKAGE) for part in self.parts.values())

    def ungated(self) -> "Variant":
        """Without the parts whose gates can be closed: what it equals when all are.

        With a latent, a reciprocal part also has the queries come out of it: its place is taken by
        the fixed form, which in no layer exchanges anything.
        """
        kept = {slot: p for slot, p in self.parts.items() if not p.literals["NEUTRAL"]}
        if self.latent and "reciprocal" in self.parts:
            kept.setdefault("reciprocal", parts()[_NULL_RECIPROCAL])
        return Variant(parts={slot: kept[slot] for slot in SLOTS if slot in kept})

    def build(self, slot: str, config: Any, layer: int, **context: Any) -> Any:
        """Module of the part in `slot` for a layer; None where the slot is empty."""
        if slot not in self.parts:
            return None
        part = self.parts[slot]
        try:
            return plugins.load(part).build(config, layer, **context)
        except BadInput:
            raise
        except Exception as error:
            raise BadInput(
                f"the part {part.literals['TAG']} ({part.path}) fails to build layer {layer} of "
                f"{self.name}: {type(error).__name__}: {error}"
            ) from error


def parts(folders: Sequence[Path] = ()) -> dict[str, Plugin]:
    """All parts by tag, in the order of their slots."""
    by_tag: dict[str, Plugin] = {}
    for plugin in plugins.listing(KIND, folders).values():
        tag, slot = plugin.literals.get("TAG"), plugin.literals.get("SLOT")
        if not isinstance(tag, str) or not tag.isalnum() or slot not in SLOTS:
            raise BadInput(
                f"{plugin.path} is a part with TAG {tag!r} and SLOT {slot!r}; wanted letters and "
                f"digits, and one of {', '.join(SLOTS)}"
            )
        if tag in by_tag:
            raise BadInput(
                f"{plugin.path} has the tag {tag} of {by_tag[tag].path}; give one of them another"
            )
        by_tag[tag] = plugin
    _refuse_shared_options(by_tag.values())
    return dict(sorted(by_tag.items(), key=lambda item: SLOTS.index(item[1].literals["SLOT"])))


def parse(name: str, folders: Sequence[Path] = ()) -> Variant:
    """The variant called `name`."""
    known = parts(folders)
    base, *words = name.split("_")
    if base != BASE:
        raise BadInput(f"{name!r} is no model of this family; a name is {_form(known)}")
    tags = [tag for word in words for tag in _tags_of(word, known, name)]
    return compose(tags, folders, name=name)


def compose(tags: Sequence[str], folders: Sequence[Path] = (), *, name: str = "") -> Variant:
    """The variant with these parts; what contradicts itself is refused, in words about `name`."""
    known = parts(folders)
    name = name or "+".join(tags)
    chosen: dict[str, Plugin] = {}
    for tag in tags:
        slot = known[tag].literals["SLOT"]
        if slot in chosen:
            other = chosen[slot].literals["TAG"]
            twice = (
                f"{tag} twice" if tag == other else f"{other} and {tag}, both of the slot {slot}"
            )
            raise BadInput(f"{name!r} has {twice}; a slot takes one part: leave one out")
        chosen[slot] = known[tag]
    for part in chosen.values():
        _refuse_neighbours(part, chosen, known, name)
    return Variant(parts={slot: chosen[slot] for slot in SLOTS if slot in chosen})


def config_class(variant: Variant) -> type[ModelConfig]:
    """The configuration with all options of a variant's parts; see config.py."""
    options = tuple(option for part in variant.parts.values() for option in declared(part))
    return extended(RA_MLA_Config if variant.latent else GPTConfig, options)


def model_class(variant: Variant | str, folders: Sequence[Path] = ()) -> type:
    """The class of a variant, named for it; the same one each time. Imports torch."""
    from assay.models.gpt2.model import class_of

    return class_of(parse(variant, folders) if isinstance(variant, str) else variant)


def pairs(folders: Sequence[Path] = ()) -> tuple[Variant, ...]:
    """GPT-2 and every sound variant of one or two parts, with a latent where one is needed."""
    known = parts(folders)
    sound: dict[str, Variant] = {}
    for tags in ((), *combinations(known, 1), *combinations(known, 2)):
        needs = {slot for tag in tags for slot in known[tag].literals["NEEDS"]}
        filled = {known[tag].literals["SLOT"] for tag in tags}
        added = (_DEFAULT_LATENT,) if _LATENT_SLOT in needs - filled else ()
        try:
            variant = compose((*added, *tags), folders)
        except BadInput:
            continue  # the two contradict each other
        sound.setdefault(variant.name, variant)
    return tuple(sound.values())


def variations(variant: Variant) -> tuple[dict[str, Any], ...]:
    """Options beyond the defaults that its parts want examined."""
    return tuple(o for part in variant.parts.values() for o in part.literals["VARIATIONS"])


def _refuse_neighbours(
    part: Plugin, chosen: Mapping[str, Plugin], known: Mapping[str, Plugin], name: str
) -> None:
    """Refuse a part without what it needs, or with what it cannot be with."""
    tag = part.literals["TAG"]
    for slot in part.literals["NEEDS"]:
        if slot not in chosen:
            able = [t for t, p in known.items() if p.literals["SLOT"] == slot]
            raise BadInput(
                f"{name!r}: {tag} needs a part of the slot {slot}; add one of {', '.join(able)}, "
                f"as in {BASE}_{able[0]}_{tag}"
            )
    for slot, reason in part.literals["EXCLUDES"].items():
        if slot in chosen:
            other = chosen[slot].literals["TAG"]
            raise BadInput(f"{name!r}: {tag} cannot be with {other}: {reason}")


def _refuse_shared_options(parts: Iterable[Plugin]) -> None:
    """Refuse two parts with one option, and an option that is a size of the model."""
    sizes = {f.name for kind in (GPTConfig, RA_MLA_Config) for f in fields(kind)}
    owners: dict[str, object] = dict.fromkeys(sizes - set(RA_MLA_Config.OPTIONS), "every model")
    for part in parts:
        for option in declared(part):
            if option.name in owners:
                raise BadInput(
                    f"{part.path} has the option {option.name}, which {owners[option.name]} has "
                    "as well; give it another name"
                )
            owners[option.name] = part.path


def _tags_of(word: str, known: Mapping[str, Plugin], name: str) -> list[str]:
    """The tags that one word of a name is written with."""
    ends: list[str] = []
    rest = word
    while rest not in known:
        joined = [t for t, p in known.items() if p.literals["JOINS"] and rest.endswith(t)]
        if not joined or rest == joined[0]:
            raise BadInput(f"{name!r} has {word!r}, which is no part; a name is {_form(known)}")
        ends.insert(0, joined[0])
        rest = rest.removesuffix(joined[0])
    return [rest, *ends]


def _form(known: Mapping[str, Plugin]) -> str:
    return (
        f"{BASE} and tags with underscores between, of {', '.join(known)}: {', '.join(NAMED[1:])}"
    )


def __getattr__(name: str) -> Any:
    """The class of the variant called `name`, for `from assay.models.gpt2.variants import NAME`."""
    if not name.startswith(BASE):
        raise AttributeError(f"module {__name__} has no attribute {name}")
    try:
        return model_class(name)
    except BadInput as error:
        raise AttributeError(str(error)) from error
