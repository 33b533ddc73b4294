"""Instruments that know no framework: processes with limits, readings, caches, sensors."""
