"""Selection of models by groups, steps, variants and the user's files, each model once.

Several spellings of one model select it once, with all its steps. Nothing here needs torch.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from assay.correctness.models import tiny, user_models
from assay.errors import BadInput
from assay.models.gpt2 import steps, variants
from assay.models.gpt2.config import SEPARATOR, format_options, parse_options
from assay.models.gpt2.options import declared
from assay.models.gpt2.variants import Variant

GROUPS = {
    "all": "every step, every sound combination of two mechanisms, and their variations",
    "fast": "few models that have every part between them",
    "named": "the named steps",
    "ratio": "the RATIO steps, 0 to 18",
    "pairs": "every sound combination of two mechanisms, and their variations",
}
_FILE = re.compile(r"(.+\.py)(:.*)?")  # a path, and the name of one of its models
_KNOWN = (
    f"Beside steps there are {', '.join(GROUPS)}, variants such as GPT2_MLA_KV, and paths of files "
    "(ending in .py)"
)


@dataclass(frozen=True, kw_only=True)
class SelectedModel:
    """A model to examine: a variant of the family with options, or a class in a user's file."""

    name: str  # selects it again: GPT2_RACT+ct_mode=max, or mine.py:GPT2_Mine
    variant: Variant | None = None
    options: Mapping[str, Any] = field(default_factory=dict)  # at 124M size
    steps: tuple[str, ...] = ()  # that mean this model
    file: Path | None = None
    named: frozenset[str] = field(default=frozenset(), compare=False)  # options that its entry sets

    @property
    def tags(self) -> tuple[str, ...]:
        """Tags of its parts; none for the baseline and for a user's class."""
        return self.variant.tags if self.variant else ()

    @property
    def has_user_code(self) -> bool:
        return self.variant is None or self.variant.has_user_code

    @property
    def class_name(self) -> str:
        """Name of a user's class."""
        return self.name.rpartition(":")[2]


@dataclass(frozen=True, kw_only=True)
class ModelSelection:
    """Models in the order of their entries, and warnings for the user."""

    models: tuple[SelectedModel, ...]
    warnings: tuple[str, ...]


def select(
    entries: Iterable[str],
    folders: Sequence[Path] = (),
    options: Mapping[str, Any] | None = None,
) -> ModelSelection:
    """Return the models that `entries` name; BadInput for an unknown one. `options` are for those
    models that read them and do not set them: such a model is none of the steps any more."""
    warnings: list[str] = []
    models: dict[object, SelectedModel] = {}
    for entry in entries:
        for named in _models(entry, folders, warnings):
            model = _with_options(named, options or {})
            known = models.setdefault(_identity(model), model)
            step_ids = tuple(dict.fromkeys((*known.steps, *model.steps)))
            models[_identity(model)] = replace(known, steps=step_ids)
    _refuse_repeated_names(models.values())
    return ModelSelection(models=tuple(models.values()), warnings=tuple(dict.fromkeys(warnings)))


def with_absolute_path(entry: str) -> str:
    """An entry that can be read from any folder: that of a file with its absolute path."""
    file = _FILE.fullmatch(entry)
    return f"{Path(file[1]).resolve()}{file[2] or ''}" if file else entry


def _models(entry: str, folders: Sequence[Path], warnings: list[str]) -> Iterator[SelectedModel]:
    if entry in GROUPS:
        yield from _group(entry, folders)
    elif file := _FILE.fullmatch(entry):
        yield from _in_file(Path(file[1]), file[2] or "")
    elif entry.startswith(user_models.PREFIX):
        yield _by_name(entry, folders)
    else:
        try:
            step, warning = steps.find(entry)
        except BadInput as error:
            raise BadInput(f"{error}. {_KNOWN}") from error
        warnings += [warning] if warning else []
        yield _of_step(step, folders)


def _group(name: str, folders: Sequence[Path]) -> Iterator[SelectedModel]:
    if name == "fast":
        yield from (_of_variant(variant) for variant in _covering(variants.pairs(folders)))
        return
    for step in steps.STEPS:
        if name in ("all", step.family):
            yield _of_step(step, folders)
    if name in ("all", "pairs"):
        yield from _pairs(folders)
    if name == "all":
        own = user_models.models_in(folders).items()
        yield from (_of_class(class_name, file) for class_name, file in own)


def _pairs(folders: Sequence[Path]) -> Iterator[SelectedModel]:
    """Every sound combination; a variation of options with the first that reads it."""
    tried: list[Mapping[str, Any]] = []
    for variant in variants.pairs(folders):
        yield _of_variant(variant)
        for options in variants.variations(variant):
            if options not in tried:
                tried.append(options)
                yield _of_variant(variant, options)


def _covering(candidates: Sequence[Variant]) -> list[Variant]:
    """The baseline, and then each time the variant with most of the tags not yet covered."""
    chosen, covered = [candidates[0]], set(candidates[0].tags)
    wanted = {tag for variant in candidates for tag in variant.tags}
    while wanted - covered:
        best = max(candidates, key=lambda variant: len(set(variant.tags) - covered))
        chosen.append(best)
        covered |= set(best.tags)
    return chosen


def _in_file(path: Path, suffix: str) -> Iterator[SelectedModel]:
    names = user_models.model_names(path)
    chosen = suffix.removeprefix(":")
    if suffix and chosen not in names:
        raise BadInput(
            f"{path}{suffix} names no model; {path} has {', '.join(names)}, written "
            f"{path}:{names[0]}"
        )
    yield from (_of_class(name, path.resolve()) for name in names if chosen in ("", name))


def _by_name(entry: str, folders: Sequence[Path]) -> SelectedModel:
    name, _, options = entry.partition(SEPARATOR)
    own = user_models.models_in(folders)
    if name in own:
        return _of_class(name, own[name])
    variant = variants.parse(name, folders)
    return _of_variant(variant, parse_options(options, variants.config_class(variant)))


def _of_step(step: steps.Step, folders: Sequence[Path]) -> SelectedModel:
    variant = variants.parse(step.variant, folders)
    return replace(_of_variant(variant, step.options), steps=(step.id,))


def _of_variant(variant: Variant, options: Mapping[str, Any] | None = None) -> SelectedModel:
    """A variant with options; those at their defaults are left out of its name."""
    defaults = tiny.defaults(variants.config_class(variant))
    changed = {name: value for name, value in (options or {}).items() if value != defaults[name]}
    name = SEPARATOR.join(filter(None, (variant.name, format_options(changed))))
    named = frozenset(options or ())
    return SelectedModel(name=name, variant=variant, options=changed, named=named)


def _with_options(model: SelectedModel, options: Mapping[str, Any]) -> SelectedModel:
    parts = model.variant.parts.values() if model.variant else ()
    read = {option.name for part in parts for option in declared(part)} - model.named
    added = {name: value for name, value in options.items() if name in read}
    changed = _of_variant(model.variant, {**model.options, **added}) if added else model
    return model if changed.options == model.options else changed


def _of_class(name: str, file: Path) -> SelectedModel:
    return SelectedModel(name=f"{file.name}:{name}", file=file)


def _identity(model: SelectedModel) -> object:
    """Key that spellings of one model share: its parts and the configuration it is examined in."""
    variant = model.variant
    if variant is None:
        return model.file, model.name
    return variant.name, tiny.config(variants.config_class(variant), model.options)


def _refuse_repeated_names(models: Iterable[SelectedModel]) -> None:
    files: dict[str, Path | None] = {}
    for model in models:
        if model.name in files:
            raise BadInput(f"{files[model.name]} and {model.file} are called alike; rename one")
        files[model.name] = model.file
