"""Mechanisms, one file each, all called the same way."""
