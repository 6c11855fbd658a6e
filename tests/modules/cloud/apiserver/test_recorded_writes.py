"""The API server tells the change journal of each committed write, and of nothing else."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from beehive.simulation import Simulation
from beehive.testing import Harness
from beehive.turns import Turns
from modules.apimachinery.kinds import key_of
from modules.cloud.api_messages import MODULE, RESOURCE, SOURCE, Verb
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.apiserver.committed_changes import CommittedChanges
from modules.cloud.apiserver.endpoints.subscriptions import Subscriptions
from modules.cloud.apiserver.module import ApiServer
from modules.cloud.apiserver.recorded_writes import NO_WRITER
from modules.cloud.authorization.rbac.index import RbacIndex
from modules.cloud.client.calls import MERGE, ApiCall, ApiResult
from modules.cloud.journal.database import JournalDatabase
from modules.cloud.journal.module import Journal
from modules.cloud.object_writes import JOURNAL, WRITES, WRITES_RESOURCE, ObjectWrite, WriteList, WriteQuery
from modules.cloud.refusals import Refusals
from modules.cloud.storage.object_storage import EventType, ObjectEvent
from modules.lab.simulate.embedded_server import ObservedApiServer
from tests.modules.cloud.objects import configmap, in_memory, node, pod


class Cloud:
    """The API server and the journal."""

    def __init__(self, bee: Harness) -> None:
        self._bee = bee
        bee.add(ApiServer, Cluster(bee.clock), in_memory(), None, Refusals(bee.clock), Subscriptions())
        bee.add(Journal, lambda: JournalDatabase("sqlite://", Turns()), "a")
        bee.start()

    def call(self, verb: str, plural: str, name: str = "", body: Any = None, **fields: Any) -> None:
        """Make a call."""
        call = ApiCall(verb=verb, api_version="v1", plural=plural, name=name, body=body, **fields)
        self._bee.ask(MODULE, self._bee.message(RESOURCE, Verb.CALL, call, source=SOURCE))

    def writes(self) -> list[ObjectWrite]:
        """Return what the journal has, the oldest first."""
        answer = self._bee.ask(JOURNAL, self._bee.message(WRITES_RESOURCE, WRITES, WriteQuery()))
        found: WriteList = answer.content_as(WriteList)
        return [each.write for each in found.writes[::-1]]


@pytest.fixture
def cloud() -> Iterator[Cloud]:
    """Start both."""
    with Harness() as bee:
        yield Cloud(bee)


@pytest.mark.parametrize("is_adopting", [False, True])
def test_each_write_is_told_by_the_cloudcore_that_has_made_it(*, is_adopting: bool) -> None:
    """And by no other, whose author it is not."""
    module: Any = SimpleNamespace(clock=Simulation(1).clock)
    nothing: Any = None
    changes = CommittedChanges(module, nothing, nothing, RbacIndex())
    changes.writes.is_started = True
    new = {**configmap("conf"), "apiVersion": "v1", "kind": "ConfigMap"}
    new["metadata"] = {**new["metadata"], "resourceVersion": "1"}
    transactions: Any = SimpleNamespace(is_adopting=is_adopting, after_commit=lambda act, _if_full: act())
    changes.handle_event(ObjectEvent(EventType.ADDED, key_of(new), new), transactions)
    assert len(changes.writes.drain()) == (not is_adopting)


def test_a_refused_write_leaves_no_author_behind() -> None:
    """The next write of cloudcore's own would have that author."""
    found: list[ApiServer] = []
    with Harness() as bee:
        bee.add(
            ObservedApiServer, found.append, Cluster(bee.clock), in_memory(), None, Refusals(bee.clock),
            Subscriptions(),
        )  # fmt: skip
        bee.start()
        call = ApiCall(verb="create", api_version="v1", plural="configmaps", body={}, author="jan")
        assert bee.ask(MODULE, bee.message(RESOURCE, Verb.CALL, call, source=SOURCE)).content_as(ApiResult).refusal
        assert found[0]._changes.writes.writer is NO_WRITER


def test_who_wrote_what_and_no_value(cloud: Cloud) -> None:
    cloud.call("create", "nodes", body=node("n1"), author="administrator")
    cloud.call("create", "configmaps", body=configmap("conf"), namespace="default", author="jan")
    cloud.call(
        "patch", "configmaps", "conf", {"data": {"password": "s3cret"}}, namespace="default", patch_type=MERGE,
        author="ida", options={"fieldManager": "kubectl-edit"},
    )  # fmt: skip
    cloud.call("delete", "configmaps", "conf", namespace="default", author="ida")
    found = cloud.writes()
    assert [(each.user, each.manager, each.verb, each.kind, each.name) for each in found] == [
        ("administrator", "", "created", "Node", "n1"),
        ("jan", "", "created", "ConfigMap", "conf"),
        ("ida", "kubectl-edit", "changed", "ConfigMap", "conf"),
        ("ida", "", "deleted", "ConfigMap", "conf"),
    ]
    assert [each.fields for each in found] == [(), (), ("data.password",), ()]
    assert "s3cret" not in str(found)


def test_statuses_dry_runs_refusals_and_the_objects_of_each_start_are_not_kept(cloud: Cloud) -> None:
    assert cloud.writes() == []
    cloud.call("create", "nodes", body=node("n1"), author="ida")
    cloud.call("create", "pods", body=pod("web", node="n1"), namespace="default", author="ida")
    cloud.call(
        "patch", "pods", "web", {"status": {"phase": "Running"}}, namespace="default", subresource="status",
        patch_type=MERGE, author="system:node:n1",
    )  # fmt: skip
    cloud.call("create", "configmaps", body=configmap("dry"), namespace="default", options={"dryRun": ["All"]})
    cloud.call("create", "nodes", body=node("n1"), author="ida")  # there is one
    found = [(each.kind, each.name, each.node) for each in cloud.writes()]
    assert found == [("Node", "n1", "n1"), ("Pod", "web", "n1")]


def test_the_deletion_of_a_pod_begins_and_ends(cloud: Cloud) -> None:
    cloud.call("create", "nodes", body=node("n1"), author="ida")
    cloud.call("create", "pods", body=pod("web", node="n1"), namespace="default", author="ida")
    cloud.call("delete", "pods", "web", namespace="default", author="ida")
    options = {"gracePeriodSeconds": 0}
    cloud.call("delete", "pods", "web", namespace="default", author="system:node:n1", options=options)
    pods = [each for each in cloud.writes() if each.kind == "Pod"]
    assert [(each.user, each.verb) for each in pods if each.verb != "changed"] == [
        ("ida", "created"), ("ida", "deleting"), ("system:node:n1", "deleted"),
    ]  # fmt: skip
