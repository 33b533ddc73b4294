"""Functions for Python programs, notebooks and pytest; `assay` itself hands them out by name.

Everything here is imported when it is first used: `import assay` stays light.
"""
