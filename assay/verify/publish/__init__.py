"""Runs made ready to leave the house: bundles, papers, archives, uploads, and checking a bundle."""
