"""The process of one rank, `python -m assay.studies.rank AGENT FOLDER`, which torchrun starts.

It does its share of a cell's work (ranks.py). Rank 0 sends what it yields to the cell; the others
yield the same and say nothing.
"""

import os
import sys
from dataclasses import replace
from pathlib import Path

from assay.instruments.isolation import exit_with_parent


def main(folder: Path) -> None:
    """Do the work that the cell wrote into `folder`."""
    from torch.distributed.elastic.multiprocessing.errors import record

    record(_work)(folder)  # an exception is told to torchrun, too


def _work(folder: Path) -> None:
    from assay import plugins
    from assay.studies import cell as cells
    from assay.studies import ranks
    from assay.train import parallel
    from assay.train.processes import device_of

    request = cells.decode((folder / ranks.REQUEST).read_bytes())
    device = device_of(request.cell.device, int(os.environ["LOCAL_RANK"]))
    cell = replace(request.cell, device=device)
    stage = plugins.load(plugins.find("stages", request.stage, cell.plugin_folders))
    group = parallel.joined(cell.launch["kind"], device)
    items = stage.in_rank(cell, group)
    if group.rank:
        for _ in items:
            pass
    else:
        with (
            open(folder / ranks.UPDATES, "wb", buffering=0) as updates,
            open(folder / ranks.ANSWERS, "rb", buffering=0) as answers,
        ):
            for item in items:
                updates.write(ranks.encoded(item) + b"\n")
                if not answers.read(1):
                    raise SystemExit("the cell of this rank is gone")
            updates.write(b'{"end": true}\n')
    group.close()


if __name__ == "__main__":
    exit_with_parent(int(sys.argv[1]))
    main(Path(sys.argv[2]))
