"""The pytest plugin: the fixture `assay_check`, its marker, and results compared between runs.

pytest imports this file in every session of whoever has assay installed, so it imports nothing but
pytest until the fixture is used. Results travel as user properties of a test: those of xdist's
workers arrive too.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from assay.python.checking import CheckResult
    from assay.python.comparing import Judged, Place

SCHEMA = 1
_PROPERTY = "assay"
_GROWN = 2.0  # times its error before, from where on a probe that holds is pointed out
_MOST_GROWN = 5
_EARLIER = pytest.StashKey[dict[str, Any]]()
_CHECKS = pytest.StashKey[dict[str, Any]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("assay", "attention kernels")
    group.addoption("--assay-save", metavar="PATH", help="Save what assay_check finds as JSON.")
    group.addoption(
        "--assay-against",
        metavar="PATH",
        help="Fail where a probe of assay_check is worse than in this saved file.",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "assay(**options): options of assay.check for assay_check, such as quick=False"
    )
    path = config.getoption("--assay-against")
    config.stash[_EARLIER] = _read(Path(path)) if path else {}
    config.stash[_CHECKS] = {}


@pytest.fixture
def assay_check(request: pytest.FixtureRequest) -> "Callable[..., CheckResult]":
    """Check an implementation, a function, name or file, and fail the test unless it holds; quick
    unless the call or the marker `assay` says otherwise. A file may lie beside the test."""
    marked: dict[str, Any] = {}
    for marker in reversed(list(request.node.iter_markers("assay"))):  # the closest is the last
        marked |= marker.kwargs

    def check(attention: Any, **options: Any) -> "CheckResult":
        __tracebackhide__ = True
        import assay
        from assay.errors import BadInput, CannotRunHere

        beside = request.path.parent / str(attention)
        if str(attention).endswith(".py") and not Path(attention).exists() and beside.is_file():
            attention = beside
        try:
            verdict = assay.check(attention, **{"quick": True, **marked, **options})
        except (BadInput, CannotRunHere) as error:
            refusal = str(error)
        else:
            return _judged(request, verdict)
        pytest.fail(refusal, pytrace=False)

    return check


def _judged(request: pytest.FixtureRequest, verdict: "CheckResult") -> "CheckResult":
    """Keep a verdict; fail where it does not hold, or is worse than the saved one."""
    from assay.python.comparing import WORSE, verdict_differences

    __tracebackhide__ = True
    properties = request.node.user_properties
    number = sum(name == _PROPERTY for name, _ in properties) + 1
    key = f"{request.node.nodeid} {verdict.name}" + (f" {number}" if number > 1 else "")
    outcomes = {
        m.metric: {
            "status": m.status,
            "cases": len(m.samples),
            "value": m.value,
            "reason": m.reason,
        }
        for m in verdict.probes
    }
    properties.append((_PROPERTY, {key: outcomes}))
    if not verdict:
        pytest.fail(str(verdict), pytrace=False)
    earlier = request.config.stash[_EARLIER].get(key, {})
    differences = verdict_differences(
        _places(verdict.name, earlier), _places(verdict.name, outcomes)
    )
    if worse := [each for each in differences if each.verdict == WORSE]:
        path = request.config.getoption("--assay-against")
        lines = "\n".join(f"  {each.metric}: {each.reason}" for each in worse)
        pytest.fail(f"{verdict.name} is worse than in {path}:\n{lines}", pytrace=False)
    return verdict


def _places(name: str, probes: dict[str, Any]) -> "dict[Place, Judged]":
    from assay.python.comparing import Judged

    return {
        (name, probe, ""): Judged(status=p["status"], cases=p["cases"], reason=p["reason"])
        for probe, p in probes.items()
    }


class _Collector:
    """Collects what the tests of a session found, in the process that writes it down."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call":
            for name, value in report.user_properties:
                if name == _PROPERTY and isinstance(value, dict):
                    self.config.stash[_CHECKS].update(value)


def pytest_sessionstart(session: pytest.Session) -> None:
    session.config.pluginmanager.register(_Collector(session.config))


def pytest_sessionfinish(session: pytest.Session) -> None:
    config = session.config
    path, checks = config.getoption("--assay-save"), config.stash[_CHECKS]
    if not path or not checks or hasattr(config, "workerinput"):
        return
    from assay.records.durable import make_folder, write_atomically

    kept = _read(Path(path)) if Path(path).exists() else {}  # of tests that were not run now
    content = {"schema": SCHEMA, "checks": kept | checks}
    make_folder(Path(path).parent)
    write_atomically(Path(path), json.dumps(content, indent=1).encode() + b"\n")


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    checks, earlier = config.stash[_CHECKS], config.stash[_EARLIER]
    saved, against = config.getoption("--assay-save"), config.getoption("--assay-against")
    if not checks or not (saved or against):
        return
    terminalreporter.section("assay")
    if against:
        known = sum(key in earlier for key in checks)
        terminalreporter.line(f"{known} of {len(checks)} checks are compared with {against}")
        for line in list(_grown(earlier, checks))[:_MOST_GROWN]:
            terminalreporter.line(line)
    if saved:
        terminalreporter.line(f"{len(checks)} checks are saved to {saved}")


def _grown(earlier: dict[str, Any], checks: dict[str, Any]) -> Iterator[str]:
    """Probes that hold, with errors that have become much larger."""
    for key, probes in checks.items():
        for probe, now in probes.items():
            then = earlier.get(key, {}).get(probe, {}).get("value")
            if then and now["status"] == "ok" and (now["value"] or 0.0) >= _GROWN * then:
                shares = f"{then:.3g} of its budget before, {now['value']:.3g} now"
                yield f"{key}: the worst error of {probe} has grown: {shares}"


def _read(path: Path) -> dict[str, Any]:
    """The checks of a saved file."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["schema"] != SCHEMA:
            raise ValueError(f"its schema is {content['schema']!r}, wanted {SCHEMA}")
        for probes in content["checks"].values():
            for probe in probes.values():
                if not isinstance(probe["cases"], int) or not isinstance(probe["status"], str):
                    raise ValueError("a check lacks its cases or its status")
                if not isinstance(probe["value"], float | int | None) or "reason" not in probe:
                    raise ValueError("a check lacks its value or its reason")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise pytest.UsageError(
            f"{path} cannot be read as results of assay_check ({type(error).__name__}: {error}); "
            "save some with: pytest --assay-save PATH"
        ) from error
    return content["checks"]
