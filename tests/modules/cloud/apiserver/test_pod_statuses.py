"""A status that is stored by the short way has the outcome of the general way, which any other call goes."""

from typing import Any
from unittest import mock

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beehive.simulation import Simulation
from modules.apimachinery.kinds import JsonObject, ObjectKey, uid_of
from modules.cloud.apiserver.authorized_calls import AuthorizedCalls
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.apiserver.completeness import Completeness
from modules.cloud.apiserver.pod_statuses import PodStatuses
from modules.cloud.authorization.graph import NodeGraph
from modules.cloud.authorization.rbac.index import RbacIndex
from modules.cloud.client.calls import MERGE, STRATEGIC, ApiCall
from modules.cloud.refusals import Refusals
from tests.modules.cloud.apiserver.test_status_patches import METADATA, STATUSES
from tests.modules.cloud.objects import node, pod

_KEY = ObjectKey("Pod", "default", "web")


def _together(both: tuple[Any, Any]) -> Any:
    """Return the members of two objects; the first may be None."""
    return both[0] and {**both[0], **both[1]}


_FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "$patch": st.sampled_from(["replace", "delete", "merge"]),
        "$retainKeys": st.just(["phase"]),
        "hostIP": st.sampled_from(["192.0.2.1", ""]),
    },
)
_PATCHES = st.fixed_dictionaries(
    {"status": st.tuples(STATUSES, _FIELDS).map(_together)},
    optional={"metadata": METADATA, "spec": st.just({"a": 1}), "$patch": st.just("replace")},
)
_CALLS = st.fixed_dictionaries(
    {"body": _PATCHES | st.just([])},
    optional={
        "node": st.just("n2"),
        "name": st.just("other"),
        "patch_type": st.just(MERGE),
        "options": st.sampled_from([{"fieldValidation": "Ignore"}, {"fieldValidation": "Strict"}, {"dryRun": ["All"]}]),
    },
)


class _Server:
    """The objects, and who may write them.

    Args:
        of_pod: fields of the pod's metadata.
    """

    def __init__(self, **of_pod: Any) -> None:
        clock = Simulation(1).clock
        self.cluster = Cluster(clock)
        self.cluster.apply({"apiVersion": "v1", "kind": "Node", **node()})
        self.cluster.create({**pod(), "metadata": {"name": "web", "namespace": "default", **of_pod}})
        self.graph = NodeGraph(self.cluster.storage, clock)
        self.graph.add_objects([self.cluster.storage.get(key) for key in self.cluster.storage])
        self.cluster.storage.drain_events()
        asked = RbacIndex(), Refusals(clock), mock.Mock(Completeness)
        self.calls = AuthorizedCalls(self.cluster, self.graph, *asked, clock)

    def call(self, **fields: Any) -> ApiCall:
        """Return a patch of the pod's status, by its node."""
        body = fields.get("body")
        if isinstance(body, dict) and isinstance(metadata := body.get("metadata"), dict):
            live = self.cluster.storage.get(_KEY)["metadata"]
            own = {name: live[name] for name, value in metadata.items() if value == "own"}
            fields["body"] = {**body, "metadata": {**metadata, **own}}
        usual = {"node": "n1", "name": "web", "patch_type": STRATEGIC}
        return ApiCall(
            verb="patch", api_version="v1", plural="pods", namespace="default", subresource="status", **usual | fields
        )

    def outcome(self, calls: list[dict[str, Any]]) -> list[Any]:
        """Return the results, objects and events of calls, and the account of the node after each."""
        found: list[Any] = []
        for each in calls:
            self.cluster.storage.set_savepoint()
            try:
                found.append(msgspec.to_builtins(self.calls.serve(self.call(**each))))
            except Exception as error:  # noqa: BLE001 - refusals and dry runs are compared, too
                found.append(f"{type(error).__name__}: {error}")
                self.cluster.storage.roll_back()
            for event in self.cluster.storage.drain_events():
                self.graph.handle_event(event)
                found.append((event.new, json_of(event.body), json_of(event.bare), event.old, event.is_selected_alike))
            accounts = self.graph.accounts
            found += [self.cluster.storage.get(_KEY), dict(accounts._charges), dict(accounts._cost)]
        return found


def json_of(text: bytes) -> JsonObject | None:
    """Return the object of a text, whose members have no order."""
    return msgspec.json.decode(text) if text else None


@settings(max_examples=60, deadline=None)
@given(
    st.lists(_CALLS, min_size=1, max_size=4),
    st.fixed_dictionaries(
        {},
        optional={
            "managedFields": st.sampled_from([[], [{"manager": "kubectl"}]]),
            "finalizers": st.just(["a/b"]),
            "annotations": st.just({"kubernetes.io/config.mirror": "m"}),
        },
    ),
)
def test_a_reported_status_has_the_outcome_of_any_other_call(
    calls: list[dict[str, Any]], of_pod: dict[str, Any]
) -> None:
    first = {"body": {"status": {"phase": "Pending"}}}
    usual = _Server(**of_pod).outcome([first, *calls])
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(PodStatuses, "serve", lambda *_: None)
        general = _Server(**of_pod).outcome([first, *calls])
    assert usual == general


def _reported(server: _Server, **fields: Any) -> bool:
    return PodStatuses(server.cluster, server.graph).serve(server.call(**fields)) is not None


def test_the_short_way_is_gone_by_the_status_of_a_node_s_own_pod() -> None:
    server = _Server()
    server.outcome([{"body": {"status": {"phase": "Pending"}}}])
    uid = uid_of(server.cluster.storage.get(_KEY))
    assert _reported(server, body={"metadata": {"uid": uid}, "status": {"phase": "Running"}})
    assert not _reported(server, body={"metadata": {"uid": "other"}, "status": {"phase": "Failed"}})
    assert not _reported(server, body={"status": {"phase": "Failed"}}, node="n2")
    assert not _reported(server, body={"status": {"resourceClaimStatuses": [{"name": "a"}]}})
    assert server.cluster.storage.get(_KEY)["status"]["phase"] == "Running"


def test_the_status_of_a_pod_that_is_being_deleted_goes_the_general_way() -> None:
    """Its last status ends the deletion."""
    server = _Server(finalizers=["a/b"])
    server.outcome([{"body": {"status": {"phase": "Pending"}}}])
    server.cluster.delete(_KEY, 30)
    assert not _reported(server, body={"status": {"phase": "Succeeded"}})


def test_a_status_beyond_the_account_of_its_node_goes_the_general_way_and_is_refused() -> None:
    server = _Server()
    server.outcome([{"body": {"status": {"phase": "Pending"}}}])
    large = {"status": {"message": "x" * 2_000_000}}
    assert not _reported(server, body=large)
    assert "exceeded quota" in str(server.outcome([{"body": large}])[0])
