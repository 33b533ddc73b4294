"""Runs of trackers in the form in which runs are compared."""
