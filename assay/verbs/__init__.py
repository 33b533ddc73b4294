"""What `assay` can be told to do; one file for each verb."""

CONTRACT = ("command",)
