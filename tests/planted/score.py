"""How often the first sentence about a defect names it: python tests/planted/score.py [NAME ...].

Every defect goes through a quick check of all probes, and through one with more cases where that
holds. It is caught where a check does not hold, and named where the first explanation holds one of
the words of its CAUSE. Those that hang, end their process or need JAX, which compiles for every
case, are left out.
"""

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import torch
from patches import defects

import assay
from assay.instruments.parallel import map_forked
from assay.records.explanation import explained

FOLDER = Path(__file__).parent / "defects"


def judged(name: str) -> tuple[bool, bool, str]:
    """Caught, named, and the first sentence."""
    defect = next(defect for defect in defects(FOLDER) if defect.name == name)
    with tempfile.TemporaryDirectory() as folder:
        path = str(defect.write(Path(folder)))
        verdict = assay.check(path, quick=True)
        verdict = assay.check(path, cases=60) if verdict else verdict
    first = str(next(iter(explained(verdict.failures)), ""))
    return not verdict, defect.is_explained_by(first), first


def main() -> None:
    torch.set_num_threads(1)
    here = [d.name for d in defects(FOLDER) if not d.needs_own_process and "jax" not in d.name]
    names = sys.argv[1:] or here
    caught = named = 0
    for name, result in map_forked(judged, names):
        was_caught, was_named, first = result.value or (False, False, result.ending)
        caught, named = caught + was_caught, named + was_named
        if not was_named:
            print(f"{name}: {'caught' if was_caught else 'NOT CAUGHT'}: {first}", flush=True)
    print(f"caught {caught} of {len(names)}, named in the first sentence {named} of {len(names)}")


if __name__ == "__main__":
    main()
