"""Diagnosis of a failing case: its likely cause in words."""
