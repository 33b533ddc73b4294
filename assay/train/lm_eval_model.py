"""A TextModel as lm-eval calls one: log-likelihoods, those of whole texts, and generated texts.

Imported by evals/lm_eval.py alone, and only where the package is installed.
"""

from collections.abc import Sequence
from typing import Any

from lm_eval import utils
from lm_eval.api.model import TemplateLM

from assay.errors import BadInput
from assay.train.text_model import TextModel, TokenRequest, generate, score_tokens, started

_GENERATED = 256  # tokens, lm-eval's own default
# Arguments of a task for generation that say what is done here anyway, or name its length.
_LENGTHS = ("max_gen_toks", "max_new_tokens", "max_tokens", "max_length")
_KNOWN = {"until", "do_sample", "temperature", *_LENGTHS}


class LmEvalModel(TemplateLM):
    """The adapter; how a context and its continuation become tokens is lm-eval's own code."""

    def __init__(self, model: TextModel) -> None:
        super().__init__()
        self.model = model
        self.cut_requests = 0  # contexts that lost their beginning

    @property
    def eot_token_id(self) -> int:
        return started(self.model)

    @property
    def tokenizer_name(self) -> str:
        return self.model.name

    @property
    def max_length(self) -> int:
        return self.model.length

    def tok_encode(
        self, string: str, add_special_tokens: bool | None = None, **kwargs: Any
    ) -> list[int]:
        """Tokens of a text and none more."""
        return self.model.encode(string)

    def _loglikelihood_tokens(
        self, requests: Sequence[tuple[Any, list[int], list[int]]], **kwargs: Any
    ) -> list[tuple[float, bool]]:
        asked = [TokenRequest(context=c, continuation=t) for _, c, t in requests]
        scores = score_tokens(self.model, asked)
        self.cut_requests += sum(score.cut > 0 for score in scores)
        return [(score.total, score.greedy) for score in scores]

    def loglikelihood_rolling(
        self, requests: Sequence[Any], disable_tqdm: bool = False
    ) -> list[float]:
        """Log-likelihoods of whole texts, in windows of the model's length."""
        totals = []
        for (text,) in (request.args for request in requests):
            windows = utils.get_rolling_token_windows(
                token_list=self.model.encode(text),
                prefix_token=started(self.model),
                max_seq_len=self.model.length,
                context_len=1,
            )
            pairs = [(None, *utils.make_disjoint_window(window)) for window in windows]
            totals.append(sum(total for total, _ in self._loglikelihood_tokens(pairs)))
        return totals

    def generate_until(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[str]:
        """The likeliest texts; a task that draws at random is refused."""
        return [self._generated(*request.args) for request in requests]

    def _generated(self, context: str, arguments: dict[str, Any]) -> str:
        _require_greedy(arguments)
        stop = arguments.get("until") or []
        tokens = next((int(arguments[n]) for n in _LENGTHS if n in arguments), _GENERATED)
        return generate(
            self.model,
            self.model.encode(context),
            tokens=min(tokens, self.model.length - 1),
            stop=[stop] if isinstance(stop, str) else stop,
        )


def _require_greedy(arguments: dict[str, Any]) -> None:
    unknown = [name for name in arguments if name not in _KNOWN]
    drawn = arguments.get("do_sample") or arguments.get("temperature")
    if unknown or drawn:
        raise BadInput(
            f"the task asks for generation with {arguments}; only the likeliest text is generated "
            "here: set do_sample to false, temperature to 0, and leave other arguments out"
        )
