"""The learning rate: up in a line, then down along half a cosine to its least at the last step."""

from math import cos, pi

from assay.train.settings import TrainSettings


def learning_rate(step: int, settings: TrainSettings) -> float:
    """The rate of a step, counted from 0: the first is above zero, the last is the least."""
    if step < settings.warmup:
        return settings.learning_rate * (step + 1) / settings.warmup
    left = max(1, settings.steps - 1 - settings.warmup)
    share = min(1.0, (step - settings.warmup) / left)
    span = settings.learning_rate - settings.least_learning_rate
    return settings.least_learning_rate + span * (1 + cos(pi * share)) / 2
