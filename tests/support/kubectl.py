"""A client of the Kubernetes API with kubectl's requests: its paths, queries and Accept headers, in its order.

Written by hand after kubectl 1.32, not from captures: the machines that run the tests have no kubectl.
"""

import json
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPConnection
from typing import Any, Final, NamedTuple

from tests.support.patience import PATIENCE

TABLE: Final = (
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"
)
AGGREGATED: Final = (
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"
)
JSON: Final = "application/json"


class Reply(NamedTuple):
    """Status and decoded body."""

    status: int
    body: Any


class Kubectl:
    """The client; one connection for each request, on 127.0.0.1."""

    def __init__(self, port: int) -> None:
        self._port = port

    def ask(self, path: str, accept: str = JSON, method: str = "GET", body: Any = None, **headers: str) -> Reply:
        """Make one request; a body that is not JSON is returned as text."""
        connection = HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE)
        sent = {"Accept": accept, "User-Agent": "kubectl/v1.32.0 (linux/amd64) kubernetes/70d3cc9"}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        if data is not None:
            sent.setdefault("Content-Type", JSON)
        try:
            connection.request(method, path, data, sent)
            answer = connection.getresponse()
            text = answer.read().decode()
        finally:
            connection.close()
        is_json = (answer.headers["Content-Type"] or "").startswith(JSON)
        return Reply(answer.status, json.loads(text) if is_json else text)

    def rows(self, path: str) -> list[list[Any]]:
        """`kubectl get`: the cells of the table at a path."""
        separator = "&" if "?" in path else "?"
        table = self.ask(f"{path}{separator}limit=500", TABLE).body
        assert table["kind"] == "Table", table
        return [row["cells"] for row in table["rows"]]

    def resources(self) -> dict[str, str]:
        """`kubectl api-resources`: the group and version of each resource, asked for as it does with an empty cache."""
        assert self.ask("/api", AGGREGATED).body["versions"] == ["v1"]
        versions = [each["preferredVersion"]["groupVersion"] for each in self.ask("/apis", AGGREGATED).body["groups"]]
        found = {}
        for version, path in [("v1", "/api/v1"), *((each, f"/apis/{each}") for each in versions)]:
            for resource in self.ask(path).body["resources"]:
                found[resource["name"]] = version
        return found

    @contextmanager
    def watch(self, path: str, accept: str = JSON) -> Iterator[Iterator[dict[str, Any]]]:
        """The events of a watch, as they come."""
        connection = HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE)
        try:
            connection.request("GET", path, headers={"Accept": accept})
            answer = connection.getresponse()
            assert answer.status == 200, answer.read()
            yield (json.loads(line) for line in iter(answer.readline, b""))
        finally:
            if isinstance(connection.sock, socket.socket):
                connection.sock.shutdown(socket.SHUT_RDWR)
            connection.close()


def wait_for(events: Iterator[dict[str, Any]], **wanted: Any) -> Mapping[str, Any]:
    """Return the first event that has these fields, and drop the events before it."""
    return next(event for event in events if all(event.get(key) == value for key, value in wanted.items()))
