"""Where cells run; one file each."""

CONTRACT = ("run",)
