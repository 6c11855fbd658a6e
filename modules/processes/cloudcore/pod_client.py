"""Client of the pods of a cloud: for `cloudcore logs`, `exec`, `attach`, `cp` and `port-forward`.

They are the commands of `edgecore`, whose requests go to the API server in cloudcore here and from there, as
subresources of pods, by the stream tunnel to the node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from modules.apimachinery.types import Pod, decode
from modules.apimachinery.types.pods import PodList
from modules.cli.rest import RestClient, path_of, status_error
from modules.processes.common.pod_commands.client import NodeClient, url
from modules.processes.common.pod_commands.errors import NodeError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from modules.processes.common.pod_commands.target import PodTarget

_SUBRESOURCES: Final = {"containerLogs": "log", "exec": "exec", "attach": "attach", "portForward": "portforward"}
"""By the first part of a kubelet's path."""
_NAMES: Final = {"input": "stdin", "output": "stdout", "error": "stderr", "port": "ports"}
"""Names in the API's query, by a kubelet's; others are the same."""


class PodClient(NodeClient):
    """HTTP client of the API server behind cloudcore's control socket. All requests raise NodeError or KubectlError."""

    program: ClassVar[str] = "cloudcore"
    not_running: ClassVar[str] = "is `cloudcore run` running, with this --root?"

    def stream_url(
        self, action: str, namespace: str, pod: str, container: str = "", query: Sequence[tuple[str, str]] = ()
    ) -> str:
        """Return path and query of a subresource; see `NodeClient.stream_url`."""
        words = [("container", container)] * bool(container) + [(_NAMES.get(name, name), text) for name, text in query]
        return url("api", "v1", "namespaces", namespace, "pods", pod, _SUBRESOURCES[action], query=words)

    def refusal(self, status: int, body: bytes) -> NodeError:
        """Return the error that a `metav1.Status` describes."""
        return NodeError(status_error(status, body).text, status=status)

    def pods(self, namespace: str = "", selector: str = "") -> tuple[Pod, ...]:
        """Return pods of all nodes; see `NodeClient.pods`."""
        inside = ("namespaces", namespace) if namespace else ()
        query = [("labelSelector", selector)] if selector else []
        path = path_of("api", "v1", *inside, "pods")
        return decode(PodList, RestClient(self.path, self.not_running).raw("GET", path, query)).items

    def pod(self, target: PodTarget) -> Pod:
        """Return a pod."""
        path = path_of("api", "v1", "namespaces", target.namespace, "pods", target.name)
        return decode(Pod, RestClient(self.path, self.not_running).raw("GET", path))
