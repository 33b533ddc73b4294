"""A training run on the terminal while it goes: `assay train --watch`. All is read from records."""
