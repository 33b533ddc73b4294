"""Samples of each format and calls of their readers. What a reader needs is imported when it is
called the first time, which happens once before the forks."""

import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from assay.host import CHECKOUT
from campaign import samples_of_models as models
from campaign import samples_of_trackers as trackers


def make_run(folder: Path) -> None:
    from made_records import batch, run_folder

    made = run_folder(
        folder, bench=[batch("a", 3), batch("b", 2)], check=[batch("c", 1, stage="check")]
    )
    from assay.records.run import Done, write_done

    done = Done(status="ok", reason=None, cells={"a": "f0"}, counts={"ok": 1}, session=9, time="t")
    write_done(made, "bench", done)


def read_run(folder: Path) -> None:
    from assay.records import run
    from assay.verify.compared import load

    for each in run.runs_below(folder):
        run.open_run(each.path)
        run.last_session(each)
        run.read_done(each, "bench")
        load(each.path)
    run.load_records(folder)


def make_archive(folder: Path) -> None:
    shutil.copytree(CHECKOUT / "evidence" / "spine", folder / "spine")


def read_archive(folder: Path) -> None:
    from assay.verify.compared import load

    load(folder / "spine")


def make_config(folder: Path) -> None:
    shutil.copy(CHECKOUT / "defconfigs/flash-vs-eager", folder / "study.config")


def read_config(folder: Path) -> None:
    from assay.studies import kconfig

    kconfig.load(folder / "study.config")


def make_names(folder: Path) -> None:
    (folder / "name.txt").write_text("b1_h8_kv2_q113_k1023_d64_causal_float32")


def read_names(folder: Path) -> None:
    from assay.workloads.spec import WorkloadSpec, parse

    defaults = WorkloadSpec(
        batch=1, heads=2, kv_heads=2, query_length=8, key_length=8, head_dim=16, dtype="float32",
        causal=True, seed=0,
    )  # fmt: skip
    text = (folder / "name.txt").read_bytes().decode("utf-8", "surrogateescape")
    parse(text, defaults=defaults).name  # noqa: B018


def make_plugin(folder: Path) -> None:
    shutil.copy(CHECKOUT / "assay/attention/sequence/sdpa.py", folder / "mine.py")


def read_plugin(folder: Path) -> None:
    from assay import plugins

    plugin = plugins.check(plugins.find("sequence", str(folder / "mine.py")))
    plugins.how_to_install(plugin.missing)


def make_store(folder: Path) -> None:
    import numpy as np
    from numpy_calls import call, captured_call

    from assay.captures.recording import Recording
    from assay.captures.store import Store
    from assay.captures.tensor import tensor_of

    store = Store.create(folder / "store")
    mask = {"mask": tensor_of(np.tri(16, dtype=bool))}
    with Recording(store, run="run") as recording:
        for step in range(2):
            recording.put(captured_call(recording, call(seed=step) | mask, step=step, layer=0))


def read_store(folder: Path) -> None:
    from assay.captures.store import Store

    store = Store.open(folder / "store")
    for record in store.manifest().records:
        store.read(record)


def make_exported(folder: Path) -> None:
    from assay.captures.exchange import export
    from assay.captures.store import Store

    make_store(folder)
    store = Store.open(folder / "store")
    (path,) = export(store, store.manifest().records[:1], folder)
    path.rename(folder / "call.npz")
    shutil.rmtree(folder / "store")


def read_exported(folder: Path) -> None:
    from assay.captures.exchange import read_exported

    read_exported(folder / "call.npz")


def make_foreign(folder: Path) -> None:
    import numpy as np

    draw = np.random.default_rng(0)
    q, k, v = (draw.standard_normal((1, 2, 8, 16), np.float32) for _ in range(3))
    mask, scale = np.tri(8, dtype=bool), np.float32(0.25)
    np.savez_compressed(folder / "call.npz", q=q, k=k, v=v, mask=mask, scale=scale, causal=True)


def read_foreign(folder: Path) -> None:
    from assay.captures.foreign import ForeignSettings, read_foreign

    read_foreign(folder / "call.npz", run="run", step=0, settings=ForeignSettings())


def make_bundle(folder: Path) -> None:
    from assay.verify.evidence import FOLDER
    from assay.verify.publish import bundle

    target = folder / "bundle"
    bundle.prepare(FOLDER / "spine", target)
    (target / "report.md").write_text("# A report\n\n| 1.23 |\n")
    bundle.seal(target)


def read_bundle(folder: Path) -> None:
    from assay.verify.publish.inspection import look

    look(folder / "bundle")


def reseal_bundle(folder: Path, draw: random.Random) -> None:
    from altered_runs import fit

    fit(folder / "bundle")


def make_claim(folder: Path) -> None:
    shutil.copy(next((CHECKOUT / "claims").glob("*.toml")), folder / "claim.toml")


def read_claim(folder: Path) -> None:
    from assay.verify import claim

    claim.load(folder / "claim.toml").holds.bounds  # noqa: B018


def make_published(folder: Path) -> None:
    shutil.copy(next((CHECKOUT / "claims/published").glob("*.toml")), folder / "figure.toml")


def read_published(folder: Path) -> None:
    from assay.verify import published

    published.load(folder / "figure.toml")


def all_formats(kind: Callable[..., Any]) -> list[Any]:
    """A row for each format: `kind` is FileFormat."""
    run = kind(name="run_json", make=make_run, read=read_run, altered="**/run.json")
    return [
        run,
        replace(run, name="done_file", altered="**/DONE"),
        replace(run, name="metrics_jsonl", altered="**/*.jsonl"),
        kind(name="metrics_gz", make=make_archive, read=read_archive, altered="**/*.gz"),
        kind(name="config", make=make_config, read=read_config),
        kind(name="workload_name", make=make_names, read=read_names),
        kind(name="plugin_source", make=make_plugin, read=read_plugin),
        kind(name="capture_store", make=make_store, read=read_store),
        kind(name="capture_npz", make=make_exported, read=read_exported),
        kind(name="foreign_npz", make=make_foreign, read=read_foreign),
        kind(name="bundle", make=make_bundle, read=read_bundle, reseal=reseal_bundle),
        kind(name="claim", make=make_claim, read=read_claim),
        kind(name="published", make=make_published, read=read_published),
        *trackers.formats(kind),
        *models.formats(kind),
    ]
