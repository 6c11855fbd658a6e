"""cloudcore's own facts from the API server of a kubeconfig: for `cloudcore page --kubeconfig`."""

from __future__ import annotations

from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Final

from modules.cli.rest import JSON
from modules.processes.cloudcore.control_client import ControlClient
from modules.processes.common.kubeconfig_client import answered

if TYPE_CHECKING:
    from modules.cloud.client.transport import KubeTransport

_HERE: Final = Path("kubeconfig")


class KubeconfigControl(ControlClient):
    """A client of a kubeconfig's API server for cloudcore's own facts, which an embedded one has for administrators.

    Args:
        transport: to the server, as the kubeconfig's user.
    """

    def __init__(self, transport: KubeTransport) -> None:
        super().__init__(_HERE)
        self._transport = transport

    def serves_facts(self) -> bool:
        """Return whether the server has these facts, and the user may see them."""
        return self.request("GET", "/cloudcore/cloudcores")[0] == HTTPStatus.OK

    def request(self, method: str, target: str, body: bytes = b"", media: str = JSON) -> tuple[int, bytes]:
        """See `ControlClient`."""
        answer = answered(self._transport, method, target, body, media)
        return answer.head.status, answer.body
