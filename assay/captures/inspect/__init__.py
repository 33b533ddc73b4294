"""Inspection of captured calls: statistics, observations, differences, tables and a page."""
