"""What can be measured about one call; one file each."""

CONTRACT = ("measure",)
