"""A paper of a run: a LaTeX folder that needs nothing from outside itself, assay included."""
