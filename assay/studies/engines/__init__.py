"""Engines, which run cells; one file each."""

CONTRACT = ("run",)
