"""What a list of models stands for: groups, steps, variants and files of your own, each once.

Several spellings of one model are one candidate that knows them all. Nothing here needs torch.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from assay.correctness.models import model_names, tiny
from assay.errors import BadInput
from assay.models.gpt2 import option_text, steps, variants
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
class Candidate:
    """A model to examine: a variant of the family with options, or a class in a user's file."""

    name: str  # what selects it again: GPT2_RACT+ct_mode=max, or mine.py:GPT2_Mine
    variant: Variant | None = None
    options: Mapping[str, Any] = field(default_factory=dict)  # at 124M size
    steps: tuple[str, ...] = ()  # that mean this model
    file: Path | None = None

    @property
    def tags(self) -> tuple[str, ...]:
        """What it is made of; none for the baseline and for a user's class."""
        return self.variant.tags if self.variant else ()

    @property
    def class_name(self) -> str:
        """Of a user's class."""
        return self.name.rpartition(":")[2]


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Candidates in the order they were asked for, and what to tell whoever asked."""

    candidates: tuple[Candidate, ...]
    warnings: tuple[str, ...]


def select(entries: Iterable[str], folders: Sequence[Path] = ()) -> Selection:
    """The models that `entries` name; BadInput where one is not known."""
    warnings: list[str] = []
    found: dict[object, Candidate] = {}
    for entry in entries:
        for candidate in _candidates(entry, folders, warnings):
            known = found.setdefault(_identity(candidate), candidate)
            both = tuple(dict.fromkeys((*known.steps, *candidate.steps)))
            found[_identity(candidate)] = replace(known, steps=both)
    _refuse_one_name(found.values())
    return Selection(candidates=tuple(found.values()), warnings=tuple(dict.fromkeys(warnings)))


def located(entry: str) -> str:
    """An entry as it can be read from any folder: that of a file with its whole path."""
    file = _FILE.fullmatch(entry)
    return f"{Path(file[1]).resolve()}{file[2] or ''}" if file else entry


def _candidates(entry: str, folders: Sequence[Path], warnings: list[str]) -> Iterator[Candidate]:
    if entry in GROUPS:
        yield from _group(entry, folders)
    elif file := _FILE.fullmatch(entry):
        yield from _in_file(Path(file[1]), file[2] or "")
    elif entry.startswith(model_names.MODEL):
        yield _by_name(entry, folders)
    else:
        try:
            step, warning = steps.find(entry)
        except BadInput as error:
            raise BadInput(f"{error}. {_KNOWN}") from error
        wanting = f"step {entry}: {step.wanting}" if step.wanting else ""
        warnings += filter(None, (warning, wanting))
        yield _of_step(step, folders)


def _group(name: str, folders: Sequence[Path]) -> Iterator[Candidate]:
    if name == "fast":
        yield from (_of(variant) for variant in _covering(variants.pairs(folders)))
        return
    for step in steps.STEPS:
        if name in ("all", step.family):
            yield _of_step(step, folders)
    if name in ("all", "pairs"):
        yield from _pairs(folders)
    if name == "all":
        found = model_names.in_folders(folders).items()
        yield from (_of_class(class_name, file) for class_name, file in found)


def _pairs(folders: Sequence[Path]) -> Iterator[Candidate]:
    """Every sound combination; a variation of options with the first that looks at it."""
    tried: list[Mapping[str, Any]] = []
    for variant in variants.pairs(folders):
        yield _of(variant)
        for options in variants.variations(variant):
            if options not in tried:
                tried.append(options)
                yield _of(variant, options)


def _covering(there: Sequence[Variant]) -> list[Variant]:
    """The baseline, and then each time the variant that has most of the tags not yet had."""
    chosen, had = [there[0]], set(there[0].tags)
    wanted = {tag for variant in there for tag in variant.tags}
    while wanted - had:
        best = max(there, key=lambda variant: len(set(variant.tags) - had))
        chosen.append(best)
        had |= set(best.tags)
    return chosen


def _in_file(path: Path, rest: str) -> Iterator[Candidate]:
    names = model_names.names_in(path)
    asked = rest.removeprefix(":")
    if rest and asked not in names:
        raise BadInput(
            f"{path}{rest} names no model; {path} has {', '.join(names)}, written {path}:{names[0]}"
        )
    yield from (_of_class(name, path.resolve()) for name in names if asked in ("", name))


def _by_name(entry: str, folders: Sequence[Path]) -> Candidate:
    name, _, given = entry.partition(option_text.BETWEEN)
    own = model_names.in_folders(folders)
    if name in own:
        return _of_class(name, own[name])
    variant = variants.parse(name, folders)
    return _of(variant, option_text.read(given, latent=variant.latent))


def _of_step(step: steps.Step, folders: Sequence[Path]) -> Candidate:
    return replace(_of(variants.parse(step.variant, folders), step.options), steps=(step.id,))


def _of(variant: Variant, options: Mapping[str, Any] | None = None) -> Candidate:
    """The candidate of a variant; options that are the defaults are not told."""
    told = {name: value for name, value in (options or {}).items() if value != tiny.FULL[name]}
    name = option_text.BETWEEN.join(filter(None, (variant.name, option_text.spelled(told))))
    return Candidate(name=name, variant=variant, options=told)


def _of_class(name: str, file: Path) -> Candidate:
    return Candidate(name=f"{file.name}:{name}", file=file)


def _identity(candidate: Candidate) -> object:
    """What spellings of one model share: its parts and the configuration it is examined with."""
    variant = candidate.variant
    if variant is None:
        return candidate.file, candidate.name
    return variant.name, tiny.config(latent=variant.latent, options=candidate.options)


def _refuse_one_name(candidates: Iterable[Candidate]) -> None:
    files: dict[str, Path | None] = {}
    for found in candidates:
        if found.name in files:
            raise BadInput(f"{files[found.name]} and {found.file} are called alike; rename one")
        files[found.name] = found.file
