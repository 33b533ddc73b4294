"""Two cells of one name, which is refused."""

from assay.studies.cell import Cell


def cells(study):
    return [Cell(name="twin"), Cell(name="twin")]


def run(cell):
    yield from ()
