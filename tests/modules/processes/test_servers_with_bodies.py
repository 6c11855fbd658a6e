"""Which HTTP servers take bodies, and that a stranger's is not read: each decides on a request by its head."""

import ast
from pathlib import Path
from typing import Any, Final, cast

import pytest

import modules
from beehive import Hive
from beehive.http.browser_guard import BrowserGuard
from beehive.http.errors import HttpStatusError
from beehive.http.request import Request
from beehive.http.responses import Response
from beehive.http.router import Admitted, HttpService, Router, admit
from beehive.simulation import Simulation
from modules.cloud.apiserver.access.administrator_audit import AdministratorAudit
from modules.cloud.apiserver.access.loopback_service import LoopbackService
from modules.cloud.apiserver.access.service import AccessService
from modules.cloud.audit.recording import AuditRecord, AuditTrail
from modules.cloud.router.callers import AuthenticatedCallers
from modules.cloud.router.rest_service import RestService
from modules.edge.metaserver.api import Api, ApiSettings
from modules.edge.metaserver.watch_cache import WatchCache
from modules.edge.testmanager.module import ObjectApi
from modules.page.service import PageService
from modules.processes.cloudcore.lazy_page import LazyPage, PageOnly
from tests.beehive.http.requests import parse

_SERVERS: Final = {
    "cloud/router/rest_service.py": "callers with credentials",
    "edge/servicebus/module.py": "programs of the node",
    "edge/testmanager/module.py": "owners of the token",
    "page/server.py": "the page's user",
    "processes/cloudcore/api_listeners.py": "users, programs of the machine, and the page's users",
    "processes/cloudcore/control.py": "the owner of a unix socket",
    "processes/edgecore/edged_server.py": "the owner of a unix socket",
    "processes/edgecore/metaserver.py": "programs of the node",
}
"""The modules that serve HTTP with bodies, and to whom."""

_NOBODY: Final = cast("Any", None)
_OWN: Final = Router([])


def test_the_list_of_servers_is_complete() -> None:
    root = Path(modules.__file__).parent
    found = set()
    for path in root.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_bytes())) if b"HttpServer(" in path.read_bytes() else ():
            is_made = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "HttpServer"
            if is_made and any(keyword.arg == "max_body" for keyword in cast("ast.Call", node).keywords):
                found.add(str(path.relative_to(root)))
    assert found == set(_SERVERS)


class Unknown:
    """Knows no user (`Authenticates`)."""

    def user(self, _request: Request) -> None:
        return None


class Trail:
    """Records nothing (`AuditTrail`)."""

    def begin(self, request: Request) -> AuditRecord:
        return AuditRecord(None, request)


def _audited(service: HttpService) -> AdministratorAudit:
    return AdministratorAudit(service, cast("AuditTrail", Trail()))


def _metaserver() -> Api:
    return Api(ApiSettings("n1", "v1", secrets=False), WatchCache(1), Hive(Simulation()))


@pytest.mark.parametrize(
    ("service", "path", "status"),
    [
        (BrowserGuard(_OWN, ["n1"]), "/", 403),
        (LoopbackService(_OWN), "/api/v1/namespaces/a/pods", 403),
        (_audited(LoopbackService(_OWN)), "/api/v1/namespaces/a/pods", 403),
        (AccessService(Unknown(), _OWN, _NOBODY, _NOBODY), "/api/v1/namespaces/a/pods", 403),
        (
            AccessService(Unknown(), _OWN, _NOBODY, _NOBODY),
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
            403,
        ),
        (LazyPage(_NOBODY, AccessService(Unknown(), _OWN, _NOBODY, _NOBODY)), "/api/v1/namespaces/a/pods", 403),
        (LazyPage(lambda: cast("Any", PageService(_NOBODY, [], _NOBODY)), _OWN), "/page/v1/session", 421),
        (PageOnly(), "/", 404),
        (RestService(AuthenticatedCallers(cast("Any", Unknown())), _NOBODY, _NOBODY), "/n1/a/b", 401),
        (ObjectApi(Hive(Simulation()), b"t"), "/pods", 401),
        (_metaserver(), "/api/v1/namespaces/a/pods", 403),
    ],
)
def test_a_stranger_is_refused_by_the_head(service: HttpService, path: str, status: int) -> None:
    """A page of another site, or somebody without credentials, announces three megabytes."""
    head = f"POST {path} HTTP/1.1\r\nHost: evil.example\r\nOrigin: http://evil.example\r\nContent-Length: 3000000\r\n"
    if not isinstance(service, (BrowserGuard, LoopbackService, AdministratorAudit, Api)):
        head = head.replace("Origin: http://evil.example\r\n", "")
    try:
        decided = admit(service, parse(head.encode() + b"\r\n"))
    except HttpStatusError as refusal:
        assert refusal.status == status
        return
    assert isinstance(decided, Response)
    assert decided.status == status


def test_whoever_may_is_served_by_the_service_behind() -> None:
    """What a guard admits, and what decides nothing by a head."""
    request = parse(b"POST /a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\n")
    for service in (BrowserGuard(_OWN, []), LoopbackService(_OWN), _audited(LoopbackService(_OWN)), _OWN):
        decided = admit(service, request)
        assert isinstance(decided, Admitted)
        reply = decided.serve(request)
        assert isinstance(reply, Response)
        assert reply.status == 404
