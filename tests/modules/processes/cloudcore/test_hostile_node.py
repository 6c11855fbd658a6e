"""A node with a certificate of its own against the cloud and its neighbour, over real websockets and TLS."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from beehive.message import Message
from beehive.names import ModuleName
from modules.apimachinery.application import Target, Verb, application, message_of
from modules.apimachinery.kinds import JsonObject
from modules.processes.cloudcore.config import TlsConfig
from tests.modules.cloud.objects import configmap, namespace, node, pod, secret
from tests.modules.processes.cloudcore.stubs import CLOCK, Edge, Stub
from tests.modules.processes.cloudcore.test_tls import Joining
from tests.support.control_client import Apply, Get


class Battlefield:
    """A cloud with TLS, and two nodes that have joined it."""

    def __init__(self, stub: Stub, directory: Path, evil: Edge, honest: Edge) -> None:
        self.stub = stub
        self.evil, self.honest = evil, honest
        bank = {**secret("bank", a="gold"), "metadata": {"name": "bank", "namespace": "finance"}}
        self.stub.client.run(Apply([namespace("finance"), configmap(), secret("theirs", a="gold"), bank]))
        self.stub.client.run(Apply([pod("theirs", nodeName="n2", imagePullSecrets=[{"name": "theirs"}])]))
        for _ in range(2):
            self.honest.acknowledge(self.honest.next())

    def forges(self, source: str, operation: str, resource: str, content: Any = None, **fields: Any) -> Message:
        """A message of the evil node, just as it likes."""
        fields.setdefault("group", "resource")
        message = Message.new(CLOCK, source=source, operation=operation, resource=resource, content=content, **fields)
        self.evil.send(message)
        return message

    def objects(self, kind: str) -> list[JsonObject]:
        """What there is, as the administrator sees it."""
        return [item.object or {} for item in self.stub.client.run(Get(kind, namespace=None))]

    def settled(self) -> None:
        """Until all that the evil node has said has been heard: its last request is answered."""
        self.evil.ask("null/node/n1", "query")


@pytest.fixture
def field(tmp_path: Path) -> Iterator[Battlefield]:
    with Stub(tmp_path, tls=TlsConfig(directory=tmp_path / "tls", https_port=0)) as stub:
        jwt = stub.client.token(3600.0).partition(".")[2]
        joining = Joining(stub, tmp_path)
        contexts = [
            joining.certificate(name, joining.context(), Authorization=f"Bearer {jwt}") for name in ("n1", "n2")
        ]
        with stub.edge("n1", contexts[0]) as evil, stub.edge("n2", contexts[1]) as honest:
            for name, edge in (("n1", evil), ("n2", honest)):
                assert edge.ask(f"null/node/{name}", "insert", node(name)).content_as(dict)["Err"] is None
            yield Battlefield(stub, tmp_path, evil, honest)


def test_secrets_of_others_are_read_by_no_query_and_no_application(field: Battlefield) -> None:
    """Both ways to the API, one gate."""
    for name in ("finance/secret/bank", "default/secret/theirs"):
        answer = field.evil.ask(name, "query").content_as(dict)
        assert answer["Err"]["ErrStatus"]["reason"] == "Forbidden"
        assert b"Z29sZA" not in bytes(field.evil.ask(name, "query").content_raw())
    listing = application(Target("", "v1", "secrets"), Verb.LIST, "n1", b"{}")
    refused = field.evil.answer_to(message_of(listing, CLOCK)).content_as(dict)
    assert (refused["Status"], refused["Error"]["ErrStatus"]["code"]) == ("Rejected", 403)


def test_refusals_are_counted_by_reason_and_kind(field: Battlefield) -> None:
    """`cloudcore metrics` shows them, whatever the node has called things."""
    for _ in range(30):
        field.forges("control", "apply", "x" * 900 + "/y")
        field.evil.ask("finance/secret/bank", "query")
    field.evil.ask("default/pod/evil", "insert", pod("evil"))
    counted = [line for line in field.stub.client.metrics().splitlines() if "refused_requests_total{" in line]
    assert sorted(counted) == [
        'cloudcore_refused_requests_total{kind="other",reason="not a message of an edge"} 30.0',
        'cloudcore_refused_requests_total{kind="pods",reason="restricted"} 1.0',
        'cloudcore_refused_requests_total{kind="secrets",reason="not authorized"} 30.0',
    ]
    assert 'beehive_module_restarts_total{module="edgecontroller"} 0.0' in field.stub.client.metrics()


def test_no_pod_is_made_on_another_node(field: Battlefield) -> None:
    """Nor in the other's name: whose Application it is, the connection says."""
    evil = b'{"metadata":{"name":"evil"},"spec":{"nodeName":"n2","containers":[{"name":"c","image":"i"}]}}'
    making = application(Target("", "v1", "pods", "default"), Verb.CREATE, "n2", b"{}", evil)
    refused = field.evil.answer_to(message_of(making, CLOCK)).content_as(dict)
    assert refused["Error"]["ErrStatus"]["code"] == 403
    assert [each["metadata"]["name"] for each in field.objects("pods")] == ["theirs"]


PODS = {"api_version": "v1", "plural": "pods", "namespace": "default"}
INSIDE: list[tuple[str, str, str, Any]] = [
    ("control", "call", "cloudcore/objects", {**PODS, "verb": "create", "body": pod("evil", nodeName="n2")}),
    ("control", "call", "default/pod/evil", {**PODS, "verb": "create", "body": pod("evil", nodeName="n2")}),
    ("control", "call", "cloudcore/objects", {**PODS, "verb": "delete", "name": "theirs"}),
    ("control", "call", "cloudcore/objects", {"verb": "list", "api_version": "v1", "plural": "secrets"}),
    ("control", "watch", "cloudcore/objects", {"kind": "Secret"}),
    ("registrar", "token", "registrar", {"seconds": 1000.0}),
    ("dynamiccontroller", "call", "cloudcore/objects", {"verb": "list", "api_version": "v1", "plural": "secrets"}),
    ("cloudhub", "disconnected", "node/n2", {"event_type": "", "timestamp": 0, "client_id": "n2"}),
    ("x", "disconnected", "node/n2", {"event_type": "", "timestamp": 0, "client_id": "n2"}),
    ("x", "connected", "node/n2", {"event_type": "", "timestamp": 0, "client_id": "n2", "connection": "c"}),
    ("x", "connected", "node/n2", {"nonsense": 1}),
    ("x", "acknowledged", "cloudhub/acknowledged", [["n2", "uid", 2**60, False]]),
    ("edgecontroller", "disconnected", "node/n2", {"connection": "c"}),
    ("control", "nodes", "cloudhub/nodes", None),
    ("", "insert", "node/n2/default/pod/x", {}),
]


@pytest.mark.parametrize(("source", "operation", "resource", "content"), INSIDE)
def test_names_inside_the_cloud_cannot_be_spelt(
    field: Battlefield, source: str, operation: str, resource: str, content: Any
) -> None:
    """Whatever group it names: no pod is made or goes, no module is started again, the other node is served."""
    for group in ("resource", "meta", "edgecontroller", "control", "cloudhub", "dynamiccontroller", ""):
        field.forges(source, operation, resource, content, group=group)
    field.settled()
    assert [each["metadata"]["name"] for each in field.objects("pods")] == ["theirs"]
    assert set(field.stub.core.hive.restarts().values()) == {0}
    field.stub.client.run(Apply([pod("next", nodeName="n2")]))
    while field.honest.next().route.resource != "default/pod/next":
        pass


def test_messages_that_no_edge_sends_are_answered_with_an_error(field: Battlefield) -> None:
    """Where an edge would wait; and its node hears nothing else of it."""
    answer = field.evil.ask("default/deployment/web", "query")
    assert answer.route.operation == "error"
    assert "no node may send this" in answer.content_as(str)


def test_an_answer_is_taken_only_from_the_asked_node(field: Battlefield) -> None:
    """Not even with the id: here of a request that the administrator's command has put to edgecontroller."""
    hive = field.stub.core.hive
    asked = Message.new(CLOCK, source="control", resource="cloudcore/objects", operation="call", content={})
    got: list[Any] = []
    hive.pending_requests.register(asked, 60.0, got.append, asked=(ModuleName.EDGECONTROLLER,))
    csi = Message.new(CLOCK, source="csidriver", resource="node/n2/default/volume/v", operation="createvolume")
    hive.pending_requests.register(csi, 60.0, got.append, asked=(ModuleName.CLOUDHUB,))
    for parent in (asked.id, csi.id):
        for operation in ("response", "error", "query"):
            field.forges("edged", operation, "default/volume/v", "forged", parent_id=parent)
    field.settled()
    assert got == []
    answer = Message.new(
        CLOCK, source="edged", resource="default/volume/v", operation="response", content="made", parent_id=csi.id
    )
    field.honest.send(answer)
    field.honest.ask("null/node/n2", "query")
    assert [each.content_as(str) for each in got] == ["made"]
    hive.pending_requests.answer(asked.reply(CLOCK))
