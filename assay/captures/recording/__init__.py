"""What is captured, and how it gets to the disk: which calls, how much, in the background."""
