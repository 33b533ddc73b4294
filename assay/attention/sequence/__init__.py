"""Implementations of attention over whole sequences; one file each."""

CONTRACT = ("attention",)
FRAMEWORK = "torch"
