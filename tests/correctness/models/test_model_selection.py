"""Lists of models: groups, steps, variants and files, each model once."""

import subprocess
import sys

import pytest

from assay.correctness.models.selection import SelectedModel, select, with_absolute_path
from assay.errors import BadInput
from assay.models.gpt2 import steps, variants
from assay.models.gpt2.config import RA_MLA_Config, format_options, parse_options

MINE = '''"""A model of mine."""
from torch import nn


class GPT2_Mine(nn.Module):
    def get_num_params(self):
        return 0


class GPT2_Other(GPT2_Mine):
    pass


class Block(nn.Module):
    pass
'''
PART = '''"""A part of mine."""
TAG = "MINE"
SLOT = "output"


def build(config, layer, **how):
    return None
'''


def names(*entries, folders=()) -> list[str]:
    return [model.name for model in select(entries, folders).models]


@pytest.fixture(scope="module")
def everything() -> tuple[SelectedModel, ...]:
    return select(["all"]).models


@pytest.mark.parametrize("step", steps.STEPS, ids=lambda step: step.id)
def test_a_step_has_the_name_that_its_variant_prints(step):
    assert variants.parse(step.variant).name == step.variant


def test_all_has_every_step_pair_and_variation_once(everything):
    of_steps = [id for model in everything for id in model.steps]
    assert sorted(of_steps) == sorted(step.id for step in steps.STEPS)
    listed = [model.name for model in everything]
    assert len(set(listed)) == len(listed)
    assert {variant.name for variant in variants.pairs()} <= set(listed)
    assert {"GPT2_RACT+ct_mode=rms", "GPT2_MLA_KV+splice_transform=spline"} <= set(listed)


def test_every_candidate_is_selected_again_by_its_name(everything):
    for model in everything:
        (again,) = select([model.name]).models
        assert (again.name, again.options) == (model.name, model.options)


def test_spellings_of_one_model_are_one_model():
    (model,) = select(["0", "B", "GPT2"]).models
    assert model.name == "GPT2" and model.steps == ("0", "B")
    assert names("GPT2_RA_MLA", "RAMLA", "GPT2_MLA_RA") == ["GPT2_MLA_RA"]


def test_fast_has_every_part_in_few_models():
    models = select(["fast"]).models
    assert {tag for model in models for tag in model.tags} == set(variants.parts())
    assert models[0].tags == () and len(models) <= len(variants.parts()) // 2 + 1


def test_a_suffix_gives_a_warning():
    warnings = select(["RAMLA0", "1", "RAMLA1"]).warnings
    assert len(warnings) == 2 and "the trailing 1 means nothing" in warnings[1]


def test_a_file_gives_all_its_models_or_one(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(MINE)
    assert names(str(file)) == ["mine.py:GPT2_Mine", "mine.py:GPT2_Other"]
    (model,) = select([f"{file}:GPT2_Other"]).models
    assert (model.file, model.class_name, model.tags) == (file, "GPT2_Other", ())


def test_a_file_is_not_run_to_be_selected(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(MINE + "\nraise SystemExit('run')\n")
    assert len(names(str(file))) == 2


def test_a_folder_adds_its_models_and_parts(tmp_path):
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "own_part.py").write_text(PART)
    assert names("GPT2_Mine", folders=[tmp_path]) == ["mine.py:GPT2_Mine"]
    assert names("GPT2_MLA_MINE", folders=[tmp_path]) == ["GPT2_MLA_MINE"]
    listed = names("all", folders=[tmp_path])
    assert {"mine.py:GPT2_Other", "GPT2_MINE", "GPT2_RA_MINE"} <= set(listed)


def test_an_entry_can_be_read_from_another_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert with_absolute_path("sub/mine.py:GPT2_X") == f"{tmp_path}/sub/mine.py:GPT2_X"
    assert with_absolute_path("a.pyenv/mine.py") == f"{tmp_path}/a.pyenv/mine.py"
    assert with_absolute_path("GPT2_RACT+ct_k=4") == "GPT2_RACT+ct_k=4"


@pytest.mark.parametrize(
    ("entry", "wanted"),
    [
        ("GPT2_RA_RA", "RA twice"),
        ("GPT2_KV", "KV needs a part"),
        ("GPT2_NEW", "'NEW', which is no part"),
        ("GPT2_RACT+mode=max", "sets no option"),
        ("GPT2_RACT+ct_k=few", "cannot be read"),
        ("GPT2_RACT+ct_mode=sum", "is not one of topk"),
        ("GPT2+d_latent=8", "sets no option"),
        ("MLAKV3", "did you mean MLAKV"),
        ("models", "Beside steps there are all, fast"),
        ("gone.py", "there is no file gone.py"),
    ],
)
def test_an_unknown_entry_is_refused_with_those_there_are(entry, wanted):
    with pytest.raises(BadInput, match=wanted):
        select([entry])


def test_files_without_the_model_are_refused(tmp_path):
    empty, torn = tmp_path / "empty.py", tmp_path / "torn.py"
    empty.write_text("class Mine:\n    pass\n")
    torn.write_text("def (:\n")
    with pytest.raises(BadInput, match="no class whose name begins with GPT2"):
        select([str(empty)])
    with pytest.raises(BadInput, match="cannot be read as Python"):
        select([str(torn)])
    empty.write_text(MINE)
    with pytest.raises(BadInput, match="has GPT2_Mine, GPT2_Other"):
        select([f"{empty}:GPT2_Gone"])


def test_two_files_of_one_name_are_refused(tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "mine.py").write_text(MINE)
    with pytest.raises(BadInput, match="called alike"):
        select([str(tmp_path / "a" / "mine.py"), str(tmp_path / "b" / "mine.py")])
    with pytest.raises(BadInput, match="rename one"):
        select(["all"], [tmp_path / "a", tmp_path / "b"])


@pytest.mark.parametrize(
    "options",
    [
        {"ct_mode": "max", "ct_k": 4, "ct_head_average": True},
        {"splice_layers": "last:4", "splice_ratio": 0.25, "d_latent": 128},
        {"ra_layers": (0, 5, 11), "mlp_width": None, "bias": False},
    ],
)
def test_options_as_text_are_read_back(options):
    assert parse_options(format_options(options), RA_MLA_Config) == options


def test_selecting_needs_no_torch():
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from assay.correctness.models.selection import select; select(['all'])"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
