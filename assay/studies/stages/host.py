"""Ceilings of this machine, and instruments that prove themselves on known quantities.

Speeds are compared with the ceilings later; an instrument that fails here fails in every cell.
"""

from collections.abc import Iterator

from assay import peaks, plugins
from assay.host import installed_version
from assay.instruments import machine_load
from assay.records.schema import CALIBRATION, Measurement
from assay.studies.cell import Cell
from assay.studies.study import Study
from assay.subjects.outcome import Begin, outcome_of

USES = ("torch",)
REUSABLE_H = 24
PEAKS, INSTRUMENTS = "peaks/", "instruments/"


def cells(study: Study) -> list[Cell]:
    """One cell for the device that the study runs on, and one for the instruments there of every
    framework that the study measures."""
    ceilings = Cell(name=f"{PEAKS}{study.device}", subjects=(study.device,), device=study.device)
    frameworks = _frameworks(study)
    if not frameworks:
        return [ceilings]
    instruments = Cell(
        name=f"{INSTRUMENTS}{study.device}",
        subjects=tuple(frameworks),
        device=study.device,
        options={"versions": {name: installed_version(name) for name in frameworks}},
        files=tuple(plugin.path for plugin in frameworks.values()),
    )
    return [ceilings, instruments]


def run(cell: Cell) -> Iterator[Begin | Measurement]:
    """Bandwidths and matmul rate, or what each instrument made of what it was given."""
    if not cell.name.startswith(INSTRUMENTS):
        load = machine_load.read()
        yield from peaks.measure(cell.device)
        yield from machine_load.remarks(load)
        return
    from assay.performance import calibration

    for name in cell.subjects:
        yield Begin(name)
        try:
            framework = plugins.load(plugins.find("frameworks", name))
            for calibrated in calibration.all_of(framework, cell.device):
                yield calibrated.measurement(name)
        except Exception as error:
            yield outcome_of(error, subject=name, metric=f"{CALIBRATION}all")


def _frameworks(study: Study) -> dict[str, plugins.Plugin]:
    """Those of the study's implementations that are ours and installed here."""
    used = (
        plugins.find("sequence", name, study.plugin_folders).literals.get("FRAMEWORK")
        for name in study.implementations
    )
    ours = plugins.listing("frameworks")
    named = sorted({name for name in used if name in ours and not ours[name].missing})
    return {name: ours[name] for name in named}
