"""README and docs held against claims and evidence, all claims verified, and measured again.

    python -m tools.verify [CLAIM.toml ...]        make verify; by default pages and all claims

Exit code 1 where a page, a claim or a repeated measurement does not hold.
"""

import sys
from pathlib import Path

from assay.verbs.verify import judge_claims
from assay.verify import claim
from assay.verify.judgement import are_comparable
from tools import published
from tools.pages import accounts
from tools.remeasured import measure_again


def main(given: list[Path]) -> int:
    """Verify all, show what came of it, and return the exit code."""
    paths = given or sorted(Path("claims").glob("*.toml"))
    holding = bool(given) or judge_pages()
    holding &= judge_claims(paths, as_json=False)
    holding &= measure_again({path.stem: claim.load(path) for path in paths})
    return 0 if holding else 1


def judge_pages() -> bool:
    """Hold the pages of the checkout around against claims and evidence; count the figures of
    others by their verdicts, none of which is a failure of ours."""
    findings = accounts.look(Path.cwd())
    holding = are_comparable(findings)
    for finding in findings:
        print(f"{'PASS' if holding else 'FAIL'}  {finding.reason}")
    words = [repeated.word for _, repeated in published.judge_all().values()]
    counts = ", ".join(f"{words.count(word)} {word}" for word in sorted(set(words)))
    print(f"{len(words)} published figures of others: {counts} (docs/results/published.md)")
    return holding


if __name__ == "__main__":
    sys.exit(main([Path(name) for name in sys.argv[1:]]))
