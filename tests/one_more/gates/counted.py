"""A model has parameters."""

from assay.correctness.models.finding import passed


def examine(subject):
    count = sum(p.numel() for p in subject.make(0).parameters())
    return passed(f"{count} parameters", value=float(count), unit="count")
