"""The objects of a load in the cloud: made before the stand-ins join, and removed after they have left.

Pods are in a namespace of their own; stand-ins have names and a label by which they are known. Beside the objects that
the load makes itself, a node that joins leaves a Lease, Events, and cloudcore's record of its key.
"""

import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from beehive.errors import BeehiveError
from modules.apimachinery.conditions import is_ready
from modules.cli.errors import StatusError
from modules.cli.rest import RestClient, path_of
from modules.cloud.identities.records import JoinToken, NodeIdentity, key_of, object_name
from modules.processes.cloudcore.control_client import ControlClient

NAMESPACE: Final = "edgecore-load"
LABEL: Final = "edgecore.io/load"
REASON: Final = "cloudcore load"
_RECORDS: Final = "kubeedge"
"""The namespace of cloudcore's records."""
_LEASES: Final = "kube-node-lease"
_NAME: Final = re.compile(r"load-[0-9]{4}")
_AT_ONCE: Final = 16
_AT_ONCE_GONE: Final = {"gracePeriodSeconds": 0}
_PAUSE: Final = 0.2


class LoadError(BeehiveError):
    """A load cannot be made, or not be removed."""


def name_of(number: int) -> str:
    """Return the name of a stand-in."""
    return f"load-{number:04}"


class LoadObjects:
    """The objects in one cloud.

    Args:
        client: its API.
        control: its control socket.
    """

    def __init__(self, client: RestClient, control: ControlClient) -> None:
        self._client = client
        self._control = control

    def begin(self) -> None:
        """Make the namespace.

        Raises:
            LoadError: there is a load already.
            KubectlError: the cloud refuses it.
        """
        if self._status_of("namespaces", NAMESPACE) is not None or self._nodes():
            raise LoadError("make a load", NAMESPACE, "there is one already: `cloudcore load --remove` removes it")
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        self._client.request("POST", "/api/v1/namespaces", body=namespace)

    def make_pods(self, nodes: Sequence[str], pods: int) -> None:
        """Make the pods of nodes that are there. Raises KubectlError."""
        made = [_pod(node, number) for node in nodes for number in range(pods)]
        self._each(lambda pod: self._client.request("POST", _pods(), body=pod), made)

    def remove(self) -> int:
        """Remove everything, and return how many nodes that were."""
        records = self._control.identities()
        for record in records:
            if isinstance(record, JoinToken) and record.reason == REASON:
                self._control.withdraw_token(record.name, REASON)
        found = self._nodes()
        joined = {each.name for each in records if isinstance(each, NodeIdentity) and _NAME.fullmatch(each.name)}
        others = {each for each in joined - found if self._status_of("nodes", each) is None}
        names = sorted(found | others)
        if self._status_of("namespaces", NAMESPACE) is not None:
            pods = [f"{_pods()}/{each['metadata']['name']}" for each in self._client.get(_pods())["items"]]
            self._each(lambda path: self._delete(path, _AT_ONCE_GONE), pods)  # a cluster is sent no deletecollection
            self._delete(path_of("api", "v1", "namespaces", NAMESPACE))
        self._each(self._delete, (path for name in names for path in _paths_of(name)))
        self._each(self._delete, list(self._events(set(names))))
        while self._status_of("namespaces", NAMESPACE) is not None:
            time.sleep(_PAUSE)
        return len(names)

    def ready(self) -> set[str]:
        """Return the names of the stand-ins whose Nodes are Ready."""
        return {each["metadata"]["name"] for each in self._found() if is_ready(each)}

    def _nodes(self) -> set[str]:
        return {each["metadata"]["name"] for each in self._found()}

    def _found(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._client.get("/api/v1/nodes", (("labelSelector", LABEL),))["items"]
        return found

    def _events(self, names: set[str]) -> Iterator[str]:
        for event in self._client.get("/api/v1/events")["items"]:
            about, metadata = event.get("involvedObject") or {}, event["metadata"]
            if about.get("kind") == "Node" and about.get("name") in names:
                yield path_of("api", "v1", "namespaces", metadata["namespace"], "events", metadata["name"])

    def _status_of(self, plural: str, name: str) -> dict[str, Any] | None:
        try:
            return self._client.get(path_of("api", "v1", plural, name))
        except StatusError as error:
            if error.is_not_found:
                return None
            raise

    def _delete(self, path: str, body: Any = None) -> None:
        try:
            self._client.request("DELETE", path, body=body)
        except StatusError as error:
            if not error.is_not_found:
                raise

    @staticmethod
    def _each(call: Callable[[Any], Any], of: Iterable[Any]) -> None:
        with ThreadPoolExecutor(_AT_ONCE) as threads:
            list(threads.map(call, of))


def _pods() -> str:
    return path_of("api", "v1", "namespaces", NAMESPACE, "pods")


def _paths_of(name: str) -> tuple[str, ...]:
    """Return the paths of what belongs to a stand-in."""
    record = object_name(key_of(NodeIdentity(name=name)))
    return (
        path_of("api", "v1", "nodes", name),
        path_of("apis", "coordination.k8s.io", "v1", "namespaces", _LEASES, "leases", name),
        path_of("api", "v1", "namespaces", _RECORDS, "configmaps", record),
    )


def _pod(node: str, number: int) -> dict[str, Any]:
    spec = {
        "nodeName": node,
        "containers": [{"name": "app", "image": "busybox:1.36"}],
        "automountServiceAccountToken": False,
    }
    metadata = {"name": f"{node}-{number}", "namespace": NAMESPACE, "labels": {LABEL: node}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
