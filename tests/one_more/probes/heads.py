"""Number of query heads of a call."""


def measure(call, workload, host):
    return [{"metric": "heads", "value": workload.spec.heads, "unit": "count"}]
