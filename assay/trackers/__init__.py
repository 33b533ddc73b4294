"""Runs read back from experiment trackers: their files, exports and stores, as one kind of data."""
