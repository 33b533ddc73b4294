"""HellaSwag by assay beside lm-eval, question by question, on SmolLM2.

    python benchmarks/hellaswag_beside_lm_eval.py [QUESTIONS.jsonl]

Three ways to the same numbers: assay's own eval; lm-eval with its own model class and its own
hellaswag task, whose data is the local file; and that task through assay's bridge. Ends with 1
where a choice differs, or a log-likelihood by more than 0.001 nats.
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import lm_eval
from lm_eval.models.huggingface import HFLM
from lm_eval.tasks import TaskManager

from assay.models.pretrained import catalog
from assay.train.evals import hellaswag
from assay.train.evals.lm_eval import offline
from assay.train.evaluated_models import of_pretrained
from assay.train.lm_eval_model import LmEvalModel

QUESTIONS = Path(__file__).parents[1] / "tests/train/hellaswag_questions.jsonl"
TASK = """\
include: {hellaswag}
task: local_hellaswag
dataset_path: json
dataset_kwargs:
  data_files:
    validation: {questions}
training_split: null
"""
MOST = 1e-3  # nats


def by_lm_eval(model, questions: Path, folder: Path) -> tuple[list[list[float]], dict]:
    """Log-likelihoods of every ending by lm-eval's own hellaswag task, and its results."""
    own = Path(lm_eval.__file__).parent / "tasks/hellaswag/hellaswag.yaml"
    file = folder / "local_hellaswag.yaml"
    file.write_text(TASK.format(hellaswag=own, questions=questions.resolve()))
    with offline():
        tasks = TaskManager(include_defaults=False).load(str(file))
        results = lm_eval.evaluate(model, tasks, bootstrap_iters=100, verbosity="ERROR")
    samples = sorted(results["samples"]["local_hellaswag"], key=lambda each: each["doc_id"])
    likelihoods = [[float(pair[0]) for pair in each["filtered_resps"]] for each in samples]
    return likelihoods, results["results"]["local_hellaswag"]


def best(likelihoods: list[list[float]]) -> list[int]:
    return [max(range(len(each)), key=each.__getitem__) for each in likelihoods]


def main(questions: Path) -> int:
    loaded = catalog.open_model("smollm2")
    model = of_pretrained(loaded)
    scores = {score.name: score for score in hellaswag.score(model, str(questions))}
    ours = scores["log_likelihood"].details["log_likelihoods"]
    print(f"assay: {len(ours)} questions")
    for name in ("accuracy", "accuracy_norm", "accuracy_token_norm"):
        print(f"  {name} {scores[name].value:.4f} ± {scores[name].error:.4f}")
    theirs = HFLM(pretrained=loaded.model, tokenizer=loaded.tokenizer, batch_size=1)
    wrong = False
    with TemporaryDirectory() as folder:
        for title, adapter in (("lm-eval's own model", theirs), ("bridge", LmEvalModel(model))):
            likelihoods, results = by_lm_eval(adapter, questions, Path(folder))
            pairs = zip(ours, likelihoods, strict=True)
            gaps = [abs(a - b) for own, other in pairs for a, b in zip(own, other, strict=True)]
            same = sum(a == b for a, b in zip(best(ours), best(likelihoods), strict=True))
            equal = [
                scores[own].value == results[f"{other},none"]
                for own, other in (("accuracy", "acc"), ("accuracy_norm", "acc_norm"))
            ]
            print(f"lm-eval {lm_eval.__version__}, {title}:")
            print(f"  acc {results['acc,none']:.4f} ± {results['acc_stderr,none']:.4f}")
            norm, error = results["acc_norm,none"], results["acc_norm_stderr,none"]
            print(f"  acc_norm {norm:.4f} ± {error:.4f}")
            print(f"  same choice in {same} of {len(ours)}, likelihoods differ by {max(gaps):.2g}")
            wrong |= same < len(ours) or max(gaps) > MOST or not all(equal)
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else QUESTIONS))
