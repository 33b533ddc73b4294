"""Real attention inputs: taken out of a running model, looked at, compared."""
