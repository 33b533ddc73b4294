"""`assay capture export` and `import`, as a user runs them."""

import numpy as np
import pytest
from command_line import assay

from assay.captures.manifest import TensorEntry
from assay.captures.recording import Recording
from assay.captures.recording.captured_call import CapturedCall
from assay.captures.recording.options import CaptureOptions
from assay.captures.store import Store
from assay.errors import BadInput
from assay.verbs.capture import export


def plain(path, seed=0):
    """q, k and v as anybody would write them."""
    draw = np.random.default_rng(seed)
    np.savez(path, **{n: draw.standard_normal((1, 2, 5, 8), dtype=np.float32) for n in "qkv"})


def test_in_out_and_in_again(tmp_path):
    names = [f"{number}.npz" for number in range(3)]
    for number, name in enumerate(names):
        plain(tmp_path / name, number)
    done = assay("capture", "import", *names, "--to", "first", cwd=tmp_path)
    assert done.returncode == 2 and done.stderr.count("--foreign") == 3
    foreign = ("--foreign", "--causal", "--to", "first")
    done = assay("capture", "import", *names, *foreign, cwd=tmp_path)
    assert done.returncode == 0 and done.stdout.count("imported ") == 3, done.stderr
    done = assay("capture", "export", "first", "--to", "out", cwd=tmp_path)
    assert done.returncode == 0 and "wrote 3 files to out" in done.stdout
    files = sorted((tmp_path / "out").iterdir())
    files[1].write_bytes(files[1].read_bytes()[:100])
    done = assay("capture", "import", *files, "--to", "second", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout.count("imported ") == 2 and str(files[1]) not in done.stdout
    assert f"refused {files[1]}" in done.stderr and "cannot be read as npz" in done.stderr
    first, second = (Store.open(tmp_path / name) for name in ("first", "second"))
    for record in second.manifest().records:
        (before,) = [one for one in first.manifest().records if one.key == record.key]
        assert record.scalars == before.scalars and record.scalars["causal"] is True
        held, wanted = second.read(record), first.read(before)
        assert {n: t.digest() for n, t in held.items()} == {
            n: t.digest() for n, t in wanted.items()
        }
    assert [r.key.step for r in second.manifest().records] == [0, 2]


def test_a_store_without_tensors_is_not_exported(tmp_path):
    store = Store.create(tmp_path / "s")
    with Recording(store, options=CaptureOptions(mode="shapes")) as recording:
        recording.put(
            CapturedCall(
                key=recording.key(step=0, layer=0, site="x"),
                phase="eval",
                framework="numpy",
                device="cpu",
                implementation=None,
                scalars={},
                shapes={"q": TensorEntry(dtype="float32", shape=(1, 2))},
                nbytes=0,
            )
        )
    with pytest.raises(BadInput, match="has only shapes; wanted records with tensors"):
        export(store.path, None, tmp_path / "out")
