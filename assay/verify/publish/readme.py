"""README.md of a bundle: five lines for whoever unpacks it."""

from assay.reports.markdown import escaped
from assay.reports.numerals import counted
from assay.verify.publish.manifest import MANIFEST, BundleManifest, FindingCounts, PublishedRun

README = "README.md"


def readme(manifest: BundleManifest) -> str:
    """The text, from what the manifest says of runs; it cannot name the digest, which covers it."""
    runs = list(manifest.runs.values())
    tested = [*(run.findings for run in runs), *([manifest.pair.findings] if manifest.pair else [])]
    held, untested = (_total(tested, word) for word in ("holds", "not tested"))
    below = "" if len(runs) == 1 else ", each in its folder below runs/"
    lines = [
        f"# {'; '.join(_title(run) for run in runs)}",
        f"A bundle of {counted(len(runs), 'run')}{below}: records (run.json, metrics.jsonl.gz), "
        "the report made from them (report.md, report.html, figures/, tables/) and a manifest.",
        f"What holds: {counted(held, 'finding')}, none fails, {untested} could not be tested"
        + (f"; the runs {_comparison(manifest)}." if manifest.pair else "."),
        f"What it is: {'; '.join(_origin(run) for run in runs)}. {MANIFEST} has all facts, and the "
        "SHA-256 of every other file.",
        "To verify it: `assay verify . --digest DIGEST`, with the digest that came to you another "
        "way than this folder.",
    ]
    return "\n\n".join(lines) + "\n"


def _title(run: PublishedRun) -> str:
    return escaped(f"{run.facts['study']}, run {run.facts['run']}")


def _origin(run: PublishedRun) -> str:
    hardware = ", ".join(dict.fromkeys(run.hardware)) or "hardware not recorded"
    commit = str(run.facts["commit"] or "not recorded")[:12]
    return escaped(f"{run.facts['study']} at commit {commit} on {hardware}")


def _comparison(manifest: BundleManifest) -> str:
    assert manifest.pair is not None
    if manifest.pair.untested:
        return "share no metric and are not compared"
    return "may be compared with each other"


def _total(tested: list[FindingCounts], word: str) -> int:
    return sum(words.get(word, 0) for findings in tested for words in findings.values())
