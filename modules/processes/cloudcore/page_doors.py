"""The way of the page's users on the secure port to containers."""

import contextlib
import socket
import threading
from pathlib import Path

from beehive.http.errors import HttpStatusError
from beehive.http.forwarding import Fields
from beehive.http.responses import Response, Stream, Takeover
from beehive.http.router import HttpService
from modules.cli.rest import status_error
from modules.cloud.authorization.rbac.rules import AccessRequest
from modules.page.shells import EXEC, ShellDoor, ShellTarget
from modules.page.sight import Refusal
from modules.processes.cloudcore.in_process_client import Credentials, request_of
from modules.processes.cloudcore.pod_client import PodClient
from modules.processes.common.page_shell import shell_url


class UserDoor(ShellDoor):
    """Access to containers for a user, who needs the rights to `create` and, as for `kubectl exec`, to `get` pods/exec.

    Args:
        user: the user's name.
        refusal: the user's rights.
        api: the Kubernetes API.
        credentials: of the user.
    """

    def __init__(self, user: str, refusal: Refusal, api: HttpService, credentials: Credentials) -> None:
        self.user = user
        self._refusal = refusal
        self._api = api
        self._credentials = credentials

    def check(self, where: ShellTarget) -> None:
        """See `ShellDoor`. A WebSocket is a GET, which must not let in who may only read (kube-apiserver from 1.35)."""
        for verb in ("create", "get"):
            asked = AccessRequest(
                verb=verb, resource="pods", subresource=EXEC, namespace=where.namespace, name=where.pod
            )
            if why := self._refusal(asked):
                raise HttpStatusError(403, why)

    def open(self, where: ShellTarget, fields: Fields) -> socket.socket:
        """See `ShellDoor`."""
        target = shell_url(PodClient(Path("this process")), where)
        request = request_of("GET", target, self._credentials, fields=fields)
        reply = self._api.serve(request)
        if isinstance(reply, Response):
            raise status_error(reply.status, reply.body)
        if isinstance(reply, Stream):
            reply.done()
            raise HttpStatusError(502, "the answer is no stream for a browser")
        with contextlib.ExitStack() as failed:
            failed.callback(reply.done)
            ours, theirs = map(failed.enter_context, socket.socketpair())
            threading.Thread(target=_carry_on, args=(reply, theirs), name="page-shell", daemon=True).start()
            failed.pop_all()
        return ours


def _carry_on(reply: Takeover, connection: socket.socket) -> None:
    """Serve a stream of the API, until it or the shell ends."""
    with connection, contextlib.suppress(OSError):
        try:
            reply.carry_on(connection)
        finally:
            reply.done()
