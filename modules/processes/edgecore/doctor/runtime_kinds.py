"""Pods of a container runtime inside edgecore that is no longer configured: they run beside the present ones."""

from collections.abc import Iterator
from typing import Final

from modules.processes.common.doctor.check_result import CheckResult, ok, warning
from modules.processes.edgecore.runtime_kinds import LeftKind

_CHECK: Final = "other runtimes"


def check_other_kinds(left: tuple[LeftKind, ...], options: str) -> Iterator[CheckResult]:
    """Warn of each kind that has pods and is not configured; `options` lead commands to the node."""
    for each in left:
        yield warning(_CHECK, str(each), each.remedy(options))
    if not left:
        yield ok(_CHECK, "no other runtime of edgecore's has pods here")
