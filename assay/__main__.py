"""`python -m assay`: the command line without an installed script."""

from assay.cli import main

main()
