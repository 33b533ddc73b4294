"""Inputs: framework-neutral arrays with a content hash."""
