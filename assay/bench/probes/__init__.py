"""What can be measured about one call; one file each.

STAGE is the stage that runs a probe. A PAIRED probe gives one sample per call and is called for
all implementations of a cell in interleaved rounds; another is called once, in a cell of its own.
"""

CONTRACT = ("measure",)
STAGE = "bench"
PAIRED = False
