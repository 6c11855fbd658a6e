"""A cluster of nodes that say what they use, for `metrics.k8s.io`."""

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from beehive.http.http_server import HttpServer
from beehive.http.listening import listen_tcp
from beehive.http.request import Request
from beehive.http.responses import Reply
from modules.cloud.apiserver.endpoints import node_usage
from modules.cloud.apiserver.endpoints.pod_proxies import PodPort, ProxiedPath
from modules.cloud.apiserver.endpoints.service import ApiService, Requester
from tests.modules.cloud.apiserver.endpoints.serving import Serving

ROOT = "/apis/metrics.k8s.io/v1beta1"
PODS = f"{ROOT}/namespaces/default/pods"


def measured(name: str, cpu: int | None, memory: int | None) -> dict[str, Any]:
    """A container's statistics."""
    return {"name": name, "cpu": {"usageNanoCores": cpu}, "memory": {"workingSetBytes": memory}}


class Nodes:
    """The servers of nodes: their answers, None for a hanging one, and the times of requests."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.answers: dict[str, Any] = {}
        self.asked: list[tuple[float, list[str]]] = []
        self._now = now

    def gather(self, nodes: Iterable[str], target: str, took: Callable[[str, bytes], object]) -> list[str]:
        assert target == "/stats/summary?only_cpu_and_memory=true"
        names = list(nodes)
        self.asked.append((self._now(), names))
        present = [name for name in names if name in self.answers]
        for name in present:
            if (said := self.answers[name]) is not None:
                took(name, said if isinstance(said, bytes) else json.dumps(said).encode())
        return [name for name in present if self.answers[name] is None]

    def reply(self, node: str, target: str, request: Request) -> Reply:
        raise AssertionError(f"{node} is asked for {target}")

    def proxy(self, node: str, port: PodPort, path: ProxiedPath, request: Request) -> Reply:
        raise AssertionError(f"{port} of {node} is asked for {path}")


class Site(Serving):
    """A cluster of three nodes with a pod on each of the first two."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        clock = self.simulation.clock
        self.nodes = Nodes(clock.monotonic)
        monkeypatch.setattr(node_usage, "_pause", lambda _, seconds: self.simulation.run_for(seconds))
        self.service = ApiService(Requester(self), self.subscriptions, "v1.32.10", clock, nodes=self.nodes)
        for name in ("n1", "n2", "n3"):
            self.ask("POST", "/api/v1/nodes", {"kind": "Node", "apiVersion": "v1", "metadata": {"name": name}})
        self.uids = {name: self._pod(name, node) for name, node in (("web", "n1"), ("db", "n2"))}
        self.nodes.answers = {"n1": self.summary("web", 250_000_000), "n2": self.summary("db", 1)}

    def _pod(self, name: str, node: str) -> str:
        spec = {"nodeName": node, "containers": [{"name": "main", "image": "a"}, {"name": "side", "image": "a"}]}
        meta = {"name": name, "namespace": "default", "labels": {"app": name}}
        made = self.ask("POST", "/api/v1/namespaces/default/pods", {"kind": "Pod", "apiVersion": "v1",
                                                                    "metadata": meta, "spec": spec})  # fmt: skip
        return str(json.loads(made.body)["metadata"]["uid"])

    def summary(self, pod: str, cpu: int) -> dict[str, Any]:
        """A node's statistics of itself and this pod, with one unmeasured container."""
        reference = {"name": pod, "namespace": "default", "uid": self.uids[pod]}
        containers = [measured("main", cpu, 3 << 20), measured("side", None, 1)]
        return {"node": measured("", 2 * cpu, 1 << 30), "pods": [{"podRef": reference, "containers": containers}]}

    def get(self, path: str, **query: str) -> Any:
        reply = self.ask("GET", path, **query)
        return json.loads(reply.body) | {"status": reply.status}

    def names(self, path: str, **query: str) -> list[str]:
        return [each["metadata"]["name"] for each in self.get(path, **query)["items"]]

    @contextmanager
    def on_a_port(self) -> Iterator[int]:
        """The service, with what the nodes have."""
        has = {"status": {"allocatable": {"cpu": "2", "memory": "2Gi"}, "capacity": {"cpu": "4", "memory": "8Gi"}}}
        for name in ("n1", "n2", "n3"):
            self.ask("PATCH", f"/api/v1/nodes/{name}/status", has, "application/merge-patch+json")
        server = HttpServer(listen_tcp("127.0.0.1", 0), self.service, self.simulation.clock, max_body=1 << 20)
        server.start()
        try:
            yield server.port
        finally:
            server.stop()
