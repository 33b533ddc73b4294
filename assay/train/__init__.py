"""Training that can be compared: data, loop, exact resume."""
