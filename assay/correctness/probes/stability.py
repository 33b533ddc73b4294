"""Values that break kernels: large and huge scores, one-hot softmax, ties, denormals."""

from itertools import product

from assay.correctness import judge
from assay.correctness.cases import CaseGenerator
from assay.host import Host
from assay.records.schema import Measurement
from assay.subjects.contract import TensorComparison
from assay.subjects.layers import LayerSubject, inputs
from assay.subjects.sequence import SequenceSubject
from assay.workloads.spec import VALUES, WorkloadSpec
from assay.workloads.workload import Workload


def cases(generator: CaseGenerator) -> list[WorkloadSpec]:
    """Return each kind of value in each dtype, causal and full, in lengths of several tiles; in a
    quick check one mask for each dtype."""
    lengths = ((65, 65),) if generator.quick else ((65, 65), (17, 129), (130, 130))
    kinds = [kind for kind in VALUES if kind != "normal"]
    masks = [
        (dtype, causal)
        for number, dtype in enumerate(generator.dtypes)
        for causal in (True, False)
        if not generator.quick or causal == (number % 2 == 0)
    ]
    return [
        generator.spec(
            query_length=queries,
            key_length=keys,
            kv_heads=1 if causal else 2,
            head_dim=64 if causal else 32,
            dtype=dtype,
            causal=causal,
            values=kind,
        )
        for (queries, keys), kind, (dtype, causal) in product(lengths, kinds, masks)
    ]


def measure(call: SequenceSubject, workload: Workload, host: Host) -> list[Measurement]:
    """Compare output, LSE and gradients; of a layer, with every kind of value that it has."""
    if not isinstance(call, LayerSubject):
        return [judge.worst("stability", judge.compare_all(call))]
    results = [
        judge.worst("stability", _of_layer(call.of_values(kind)), f"with {kind} values, ")
        for kind in inputs.VALUES
        if kind != "normal"
    ]
    return [max(results, key=lambda result: (result.status == "failed", result.value or 0.0))]


def _of_layer(call: LayerSubject) -> list[TensorComparison]:
    """Compare the output; gradients must be finite. Where one key takes all of a row's weight they
    are differences of nearly equal numbers, and the plain layer's error is no measure for them."""
    comparisons = judge.compare_forward(call)
    for name, gradient in zip(call.gradient_names, call.gradients()[1], strict=True):
        if not all(map(call.framework.all_finite, judge.arrays(gradient))):
            comparisons.append(TensorComparison(tensor=name, problem=f"{name} is not finite"))
    return comparisons
