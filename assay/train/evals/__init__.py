"""Evals; one file each, chosen by an entry such as `hellaswag+file=questions.jsonl`.

`score(model, file, **options)` yields the EvalScores (train/eval_score.py) of a TextModel
(train/text_model.py), a model in training and a pretrained one alike. `file` is a local path, or
empty where none was given. OPTIONS has the options of a file with their defaults. Optional:
`check(file, **options)` refuses data before anything is trained.

REQUIRES names packages to be imported. NEEDS_PLACE says that a file must be given.
"""

CONTRACT = ("score",)
REQUIRES = ("torch",)
NEEDS_PLACE = True
OPTIONS = {}
