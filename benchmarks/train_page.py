"""The tables of docs/results/train.md that come from evidence: `python benchmarks/train_page.py`.

It writes them between the page's marks; a test fails where the page says something else.
"""

from functools import partial
from statistics import fmean

from assay.host import CHECKOUT
from assay.reports.training_rows import LOSS, TrainedModel, paired, trained_models
from assay.verify import evidence
from assay.verify import marked_tables as tables

PAGE = CHECKOUT / "docs/results/train.md"
# Evidence of each table, and words on its arms.
TABLES = {
    "ablation-h200": "train-ablation-h200",
    "optimizers-h200": "train-optimizers-h200",
}
WORDS = {
    "GPT2_MLA": "a sixth of the cache",
    "GPT2_MLA_KV": "a twelfth",
    "GPT2_GATE": "an output gate",
    "GPT2+mlp_width=768": "the positive control: an MLP of a quarter",
    "GPT2_RA": "the null control: q and k change places in some layers",
    "GPT2_RA+ra_start=swapped": "the same with swapped first weights",
    "GPT2/adamw+rate=0.1": "the positive control: a tenth of the rate",
}


def written(text: str) -> str:
    """The page with the tables of evidence made anew."""
    return tables.written(text, {name: partial(table, kept) for name, kept in TABLES.items()})


def table(name: str) -> str:
    """Arms of a study by their mean loss, and against the first, seed by seed."""
    models = trained_models(evidence.load(name))
    pruned = any(model.values("sparsity") for model in models)
    columns = ["arm", "loss", f"against {models[0].name}", "verdict"]
    rows = [_row(model, models[0]) for model in models]
    if pruned:
        columns.append("weights that are 0")
        rows = [[*row, _sparsity(model)] for row, model in zip(rows, models, strict=True)]
    lines = ["| " + " | ".join(row) + " |" for row in (columns, ["---"] * len(columns), *rows)]
    return "\n".join(lines) + "\n"


def _row(model: TrainedModel, baseline: TrainedModel) -> list[str]:
    words = WORDS.get(model.name)
    arm = f"{model.name}, {words}" if words else model.name
    loss = f"{fmean(model.values(LOSS)):.4f}"
    if model is baseline:
        return [arm, loss, "", ""]
    pair = paired(model, baseline)
    return [arm, loss, f"{pair.mean:+.4f} ± {pair.half_width:.4f}", pair.verdict]


def _sparsity(model: TrainedModel) -> str:
    values = model.values("sparsity")
    return f"{fmean(values):.4f}" if values else ""


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text()))
