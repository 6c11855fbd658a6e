"""Answers to `/healthz`, `/livez` and `/readyz`, check by check, in kube-apiserver's form (its package `healthz`).

A failure is 503 and says its reason, where kube-apiserver answers 500 and withholds it.
"""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

import msgspec

from beehive.http.request import Request
from beehive.http.responses import Response, text

SYNCED: Final = "informer-sync"
"""A check of readiness alone."""
LOADED: Final = (
    "etcd",
    SYNCED,
    "poststarthook/start-system-namespaces-controller",
    "poststarthook/rbac/bootstrap-roles",
    "poststarthook/scheduling/bootstrap-system-priority-classes",
)
"""kube-apiserver's names for the checks that hold once the embedded API server has loaded its objects."""
_PING: Final = "ping"
_READY: Final = "readyz"


def health(request: Request, checks: Mapping[str, str]) -> Response:
    """Return the response to a request of a health check, or of one of its parts.

    Args:
        request: its path begins with the name of the check.
        checks: of the parts, each with the reason why it fails, "" if it does not.
    """
    checks = {_PING: "", **{name: why for name, why in checks.items() if name != SYNCED or request.parts[0] == _READY}}
    part = "/".join(request.parts[1:])
    if part:
        return _verdict(checks[part]) if part in checks else text(HTTPStatus.NOT_FOUND, "404 page not found\n")
    excluded = {name for name in request.all("exclude") if name}
    counted = {name: why for name, why in checks.items() if name not in excluded}
    why = next(filter(None, counted.values()), "")
    if not request.all("verbose"):
        return _verdict(why)
    lines = [_line(name, reason, is_excluded=name in excluded) for name, reason in checks.items()]
    if unknown := sorted(excluded - checks.keys()):
        named = ",".join(msgspec.json.encode(name).decode() for name in unknown)
        lines.append(f"warn: some health checks cannot be excluded: no matches for {named}\n")
    end = f"{request.parts[0]} check {'failed' if why else 'passed'}\n"
    return text(_status(why), "".join((*lines, end)))


def _line(name: str, why: str, *, is_excluded: bool) -> str:
    if is_excluded:
        return f"[+]{name} excluded: ok\n"
    return f"[-]{name} failed: {why}\n" if why else f"[+]{name} ok\n"


def _verdict(why: str) -> Response:
    return text(_status(why), f"{why}\n" if why else "ok")


def _status(why: str) -> HTTPStatus:
    return HTTPStatus.SERVICE_UNAVAILABLE if why else HTTPStatus.OK
