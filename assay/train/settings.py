"""Settings of a training run, the same for every arm of a study but the model and the seed."""

from dataclasses import dataclass

from assay.errors import BadInput
from assay.train.optimizer_choice import DEFAULT


@dataclass(frozen=True, kw_only=True)
class TrainSettings:
    """Model, data, size, optimizer and limits of a run; a limit of zero is none."""

    model: str  # an entry of MODELS
    seed: int
    # data
    dataset: str
    place: str
    tokenizer: str
    vocabulary: int
    data_folder: str
    # size
    layers: int
    heads: int
    width: int
    length: int
    dropout: float
    # steps: `batch` sequences each, in micro-batches of `micro_batch` (0: as many as fit)
    batch: int
    micro_batch: int
    steps: int
    most_tokens: int
    most_seconds: int
    # optimizer
    optimizer: str  # an entry of TRAIN_OPTIMIZERS
    learning_rate: float
    least_learning_rate: float
    warmup: int  # steps
    weight_decay: float
    clip: float
    # how it is computed
    dtype: str
    stream: str  # dtype of the residual stream
    compiled: bool
    recompute: bool  # blocks are computed again in the backward pass instead of kept
    deterministic: bool
    # what is written when, in steps
    report_every: int
    evaluate_every: int
    save_every: int
    windows: int  # of the validation stream; 0: all
    sample_tokens: int  # generated at the end
    part_metrics: bool
    evals: tuple[str, ...] = ()  # entries of TRAIN_EVALS, scored at the end

    def __post_init__(self) -> None:
        for name in ("evaluate_every", "save_every"):
            if getattr(self, name) % self.report_every:
                raise BadInput(
                    f"{name} {getattr(self, name)} is no multiple of report_every "
                    f"{self.report_every}; what is evaluated and saved is reported at that step"
                )
        if self.batch % (self.micro_batch or 1):
            raise BadInput(
                f"a batch of {self.batch} sequences does not divide into micro-batches of "
                f"{self.micro_batch}; give a divisor, or 0 to have it chosen"
            )
        if self.stream not in ("float32", self.dtype):
            raise BadInput(
                f"a residual stream in {self.stream} beside products in {self.dtype}; give "
                f"float32, or {self.stream} for both"
            )
        if self.width % self.heads:
            raise BadInput(
                f"width {self.width} does not divide over {self.heads} heads; give a width that is "
                "a multiple of the heads"
            )
        if not 0 <= self.dropout < 1:
            raise BadInput(f"dropout {self.dropout} is not from 0 to below 1; give another")
        if self.clip < 0:
            raise BadInput(f"clip {self.clip} is below 0; give 0 for none, or such as 1")
        if self.learning_rate < self.least_learning_rate:
            raise BadInput(
                f"the learning rate {self.learning_rate} is below its least, "
                f"{self.least_learning_rate}"
            )

    @property
    def arm(self) -> str:
        """The subject of its records: the model, and its optimizer unless that is the default."""
        return self.model if self.optimizer == DEFAULT else f"{self.model}/{self.optimizer}"

    @property
    def tokens_per_step(self) -> int:
        """The effective batch in tokens, whatever the micro-batch."""
        return self.batch * self.length

    def warnings(self) -> list[str]:
        """Sizes that tensor cores handle badly; the vocabulary is padded."""
        sizes = {"width": self.width, "length": self.length}
        sizes["head width"] = self.width // self.heads
        odd = [f"{name} {value}" for name, value in sizes.items() if value % 64]
        return (
            [f"no multiple of 64: {', '.join(odd)}; multiples make products faster"] if odd else []
        )
