"""Why tests are skipped: in groups, each with the command that brings what they want, or that runs them as who may."""

import re
from collections import Counter
from typing import Final, NamedTuple

import pytest

_PREFIX: Final = "Skipped: "


class Want(NamedTuple):
    """What tests want that a machine lacks.

    Attributes:
        reason: a part of the reasons of such tests, as a regular expression.
        name: of what they want.
        command: brings it; empty if nothing does.
    """

    reason: str
    name: str
    command: str


WANTS: Final = (
    Want(r"\ban ordinary user runs these\b", "an ordinary user", "bash .ci/as-user make test"),
    Want(r"\broot\b|the tests do not run as root", "root", "sudo make test"),
    Want(r"chromium|chromedriver|browser", "a browser and its driver", "bash .ci/install-browser"),
    Want(r"PostgreSQL", "PostgreSQL", "bash .ci/install-postgresql"),
    Want(
        r"not installed.*install-runtime|(runc|crun|conmon|busybox-static\)) (is|are) not installed"
        r"|CNI plug-ins|no dbus-daemon",
        "container runtimes and their like",
        "bash .ci/install-runtime",
    ),
    Want(
        r"(curl|openssl|zstd|promtool|prometheus) is not installed|install-tools|with openssl|no tc\b|nft and ip",
        "programs that tests call",
        "bash .ci/install-tools",
    ),
    Want(r"apparmor_parser is not", "AppArmor's programs", "apt-get install apparmor"),
    Want(r"kubectl", "kubectl of a version that they compare with", ""),
    Want(r"MkDocs", "the site's tools", "make .venv/site"),
    Want(r"PyPI package|pip install|axe-core-python", "the developers' tools", "make install"),
    Want(r"apt-get install [\w .-]+", "a Debian package", ""),
    Want(
        r"kernel|this machine|user namespaces|id-mapped|cgroups? |AppArmor|mounted|IPv6|systemd-analyze",
        "what this machine's kernel or set-up lacks",
        "",
    ),
    Want(
        r"is not a runtime that|process runtime|containerd has|on any runtime|its images alone",
        "what a runtime does not offer",
        "",
    ),
)


def reason_of(report: pytest.TestReport | pytest.CollectReport) -> str:
    """Return why a test or a file was skipped."""
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return reason.removeprefix(_PREFIX)


class Wanting:
    """Counts the reasons of skipped tests."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def add(self, reason: str) -> None:
        """Count one test."""
        self._counts[reason] += 1

    def lines(self) -> list[str]:
        """Return a line for each group, the largest first: how many tests want what, and the command that brings it."""
        groups: dict[str, Counter[str]] = {}
        commands = {want.name: want.command for want in WANTS}
        for reason, count in self._counts.items():
            name = next((want.name for want in WANTS if re.search(want.reason, reason)), reason)
            groups.setdefault(name, Counter())[reason] += count
        largest = sorted(groups.items(), key=lambda group: (-group[1].total(), group[0]))
        return [_line(name, reasons, commands.get(name)) for name, reasons in largest]


def _line(name: str, reasons: Counter[str], command: str | None) -> str:
    count = reasons.total()
    tests = "1 test" if count == 1 else f"{count} tests"
    if command is None:
        return f"{tests}: {name}"
    verb = "wants" if count == 1 else "want"
    return f"{tests} {verb} {name}: {command or '; '.join(sorted(reasons))}"
