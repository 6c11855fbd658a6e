"""Rules of a cluster: the rights in deploy/rules.yaml are the ones that cloudcore uses."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from beehive import Message
from modules.cloud.client.transport import ApiRequest
from modules.cloud.router import status_writer
from modules.cloud.router.definitions import definitions
from modules.processes.cloudcore.config import RouterConfig
from tests.end_to_end.processes import wait_until
from tests.modules.cloud.router.rules import from_topic, to_topic
from tests.modules.processes.cloudcore.clusters import Cluster
from tests.modules.processes.cloudcore.deployment import DEPLOY
from tests.modules.processes.cloudcore.routes import RuleAuthors, call
from tests.modules.processes.cloudcore.stubs import CLOCK, Stub
from tests.modules.processes.cloudcore.test_rights import requests, used_in
from tests.support.http_application import HttpApplication

__all__ = ["requests"]
GROUPS = ("rules.kubeedge.io", "authentication.k8s.io", "authorization.k8s.io")


class RoutedCluster(Cluster):
    """A cluster whose cloudcore serves callers."""

    def start_core(self) -> Stub:
        """Starts cloudcore."""
        options: dict[str, Any] = {"kubeconfig": self.kubeconfig(), "database": self.core_database}
        self.core = Stub(self._directory / "core", router=RouterConfig(port=0), **options).__enter__()
        return self.core


@pytest.fixture
def both(tmp_path: Path, requests: list[ApiRequest], monkeypatch: pytest.MonkeyPatch) -> Iterator[RoutedCluster]:
    monkeypatch.setattr(status_writer, "INTERVAL", 0.1)
    monkeypatch.setattr(status_writer, "FIRST", 0.05)
    made = RoutedCluster(tmp_path)
    yield made
    made.close()


def documents() -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((DEPLOY / "rules.yaml").read_text()))


def test_the_kinds_equal_the_embedded_api_servers() -> None:
    """deploy/rules.yaml has them for a cluster."""
    kinds = [each for each in documents() if each["kind"] == "CustomResourceDefinition"]
    assert kinds == definitions()


def test_rules_of_a_cluster_are_served_with_their_rights(both: RoutedCluster, requests: list[ApiRequest]) -> None:
    """A message of a node reaches a server, the status is in the cluster, and a caller's token is reviewed there."""
    authors = RuleAuthors(both.cluster.client)
    authors.wait()
    with HttpApplication() as server, both.core.edge() as edge:
        authors.apply_endpoints()
        authors.apply(from_topic(f"http://127.0.0.1:{server.port}/in"), to_topic())
        told = edge.next()
        while told.route.operation != "subscribe":
            told = edge.next()
        assert told.route.resource == "cap/up"
        said = {"source": "bus", "group": "user", "operation": "upload", "content": "21"}
        edge.send(Message.new(CLOCK, resource="cap/up", **said))
        wait_until(lambda: authors.status("r2").get("successMessages") == 1, "the count is in the cluster")
        authors.delete("r2")
        told = edge.next()
        while told.route.operation != "unsubscribe":
            told = edge.next()
        port = both.core.core.callers_port
        assert call(port, "/n1/cap/a").status == 401
        assert call(port, "/n1/cap/a", headers={"Authorization": "Bearer unknown"}).status in (401, 503)
    used = {(right.verb, right.group, right.resource) for right in used_in(requests) if right.group in GROUPS}
    role = next(each for each in documents() if each["metadata"]["name"] == "cloudcore-rules")
    granted = {
        (verb, group, resource)
        for rule in role["rules"]
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    reviewed = {("create", "authorization.k8s.io", "subjectaccessreviews")}  # the embedded API server has no reviews
    assert used | reviewed == granted
