"""What each framework lets us read about a call: its memory and what ran in it; one file each."""

CONTRACT = ("peak", "saved_bytes", "operations", "input_copies")
