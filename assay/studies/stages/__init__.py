"""What a study does, in the order that each file's AFTER gives; one file each."""

CONTRACT = ("cells", "run")
AFTER = ()
