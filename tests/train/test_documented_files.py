"""The files of one's own that docs/train.md and docs/evals.md show work as they stand."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from small_settings import SETTINGS

from assay.models.gpt2 import variants
from assay.train.data import prepare
from assay.train.trainer import Trainer

PAGE = Path(__file__).parents[2] / "docs/train.md"
EXAMPLE = re.compile(r"```python\n# (\w+\.py):[^\n]*\n(.*?)```", re.DOTALL)


def test_a_dataset_a_tokenizer_and_an_optimizer_train_a_model(tmp_path):
    files = {}
    for name, text in EXAMPLE.findall(PAGE.read_text()):
        files[name] = tmp_path / name
        files[name].write_text(text)
    made = prepare(str(files["poems.py"]), str(files["letters.py"]), folder=tmp_path / "data")
    assert made.tokenizer.decode(made.train.window(0, 13).tolist()) == "roses are red"
    settings = replace(SETTINGS, optimizer=str(files["momentum.py"]))
    arm = Trainer(
        settings, variants.parse("GPT2"), {}, made, device="cpu", folder=tmp_path / "state"
    )
    arm.take_step()
    assert type(arm.optimizer).__name__ == "SGD" and not arm.unmoved()


def test_an_eval_scores_a_model(tmp_path):
    pytest.importorskip("transformers")
    from assay.models.pretrained import catalog
    from assay.train.evaluated_models import of_pretrained
    from assay.train.evaluation import evaluated

    ((name, text),) = EXAMPLE.findall((PAGE.parent / "evals.md").read_text())
    (tmp_path / name).write_text(text)
    (tmp_path / "poem.txt").write_text("aaa\nbbb\nccc\n")
    model = of_pretrained(catalog.open_model("random:llama"))
    entry = f"{tmp_path / name}+file={tmp_path / 'poem.txt'}"
    (score,) = evaluated(model, [entry])
    assert (score.metric, score.value, score.data["items"]) == ("eval.greedy.greedy", 0.0, 2)
