"""Correctness: cases, the judge with its error budgets, the suite of probes, diagnosis, gates."""
