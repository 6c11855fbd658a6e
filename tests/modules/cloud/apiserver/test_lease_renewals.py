"""A lease that is renewed by the short way has the outcome of the general way, which any other call goes."""

from typing import Any
from unittest import mock

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beehive.simulation import Simulation
from modules.apimachinery.kinds import JsonObject, ObjectKey
from modules.cloud.apiserver import authorized_calls
from modules.cloud.apiserver.authorized_calls import AuthorizedCalls
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.apiserver.completeness import Completeness
from modules.cloud.apiserver.lease_renewals import renew
from modules.cloud.authorization.graph import NodeGraph
from modules.cloud.authorization.rbac.index import RbacIndex
from modules.cloud.client.calls import ApiCall
from modules.cloud.refusals import Refusals
from tests.modules.cloud.apiserver.test_pod_statuses import json_of

_KEY = ObjectKey("Lease", "kube-node-lease", "n1")
_LATER = "2026-11-29T10:00:10.000000Z"
_UNCHECKED = {"fieldValidation": "Ignore"}

_CHANGES = st.fixed_dictionaries(
    {},
    optional={
        "spec": st.fixed_dictionaries(
            {},
            optional={
                "renewTime": st.sampled_from([
                    "2026-11-29T10:00:00.000000Z", "2026-11-29T10:00:10,000000Z", "2026-02-30T10:00:10.000000Z",
                    "2026-11-29T10:00:10Z", "2026-11-29T11:00:10.000000+01:00", "no time, but of 27 letters", None, 7,
                ]),
                "holderIdentity": st.sampled_from(["n2", None]),
                "leaseDurationSeconds": st.sampled_from([0, 50, "40", 40.0]),
                "unknown": st.just(1),
            },
        ),
        "metadata": st.fixed_dictionaries(
            {},
            optional={
                "resourceVersion": st.sampled_from(["", "1"]),
                "uid": st.sampled_from(["", "other"]),
                "name": st.just("n2"),
                "labels": st.just({"a": "b"}),
                "finalizers": st.just(["a/b"]),
                "managedFields": st.just([]),
            },
        ),
        "kind": st.sampled_from(["Pod", None]),
        "status": st.just({}),
    },
)  # fmt: skip
_CALLS = st.fixed_dictionaries(
    {"changes": _CHANGES},
    optional={
        "without": st.sampled_from(["creationTimestamp", "resourceVersion", "uid"]),
        "name": st.just("n2"),
        "subresource": st.just("status"),
        "api_version": st.just("coordination.k8s.io/v1beta1"),
        "options": st.sampled_from([{}, {"fieldValidation": "Strict"}, {"dryRun": ["All"]}, {"fieldManager": "m"}]),
    },
)


class _Server:
    """A lease, and who may write it."""

    def __init__(self, **metadata: Any) -> None:
        clock = Simulation(1).clock
        self.cluster = Cluster(clock)
        given = {"namespace": _KEY.namespace, "name": _KEY.name, **metadata}
        spec = {"holderIdentity": "n1", "leaseDurationSeconds": 40, "renewTime": "2026-11-29T10:00:00.000000Z"}
        self.cluster.create({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": given, "spec": spec})
        self.cluster.storage.drain_events()
        asked = RbacIndex(), Refusals(clock), mock.Mock(Completeness)
        self.calls = AuthorizedCalls(self.cluster, NodeGraph(self.cluster.storage, clock), *asked, clock)

    def call(self, changes: JsonObject | None = None, without: str = "creationTimestamp", **fields: Any) -> ApiCall:
        """Return a renewal, but for changes of its body."""
        live = self.cluster.storage.get(_KEY)
        changed = {"spec": {"renewTime": _LATER}, **(changes or {})}
        body = {**live, **changed, **{part: {**live[part], **changed.get(part, {})} for part in ("metadata", "spec")}}
        body["metadata"].pop(without, None)
        usual = {"name": "n1", "api_version": "coordination.k8s.io/v1", "options": _UNCHECKED}
        return ApiCall(verb="update", plural="leases", namespace=_KEY.namespace, body=body, **usual | fields)

    def outcome(self, calls: list[dict[str, Any]]) -> list[Any]:
        """Return the results, objects and events of calls."""
        found: list[Any] = []
        for each in calls:
            self.cluster.storage.set_savepoint()
            try:
                found.append(msgspec.to_builtins(self.calls.serve(self.call(**each))))
            except Exception as error:  # noqa: BLE001 - refusals and dry runs are compared, too
                found.append(f"{type(error).__name__}: {error}")
                self.cluster.storage.roll_back()
            events = self.cluster.storage.drain_events()
            found += [(one.new, json_of(one.body), json_of(one.bare), one.old, one.is_of_status) for one in events]
            found.append(self.cluster.storage.get(_KEY))
        return found


@settings(max_examples=80, deadline=None)
@given(
    st.lists(_CALLS, min_size=1, max_size=4),
    st.fixed_dictionaries({}, optional={"managedFields": st.just([{"manager": "k"}]), "finalizers": st.just(["a/b"])}),
)
def test_a_renewal_has_the_outcome_of_any_other_call(calls: list[dict[str, Any]], of_lease: dict[str, Any]) -> None:
    usual = _Server(**of_lease).outcome([{}, *calls])
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(authorized_calls, "renew", lambda *_: None)
        general = _Server(**of_lease).outcome([{}, *calls])
    assert usual == general


def test_the_short_way_is_gone_by_a_renewal_alone() -> None:
    server = _Server()

    def renewed(**fields: Any) -> bool:
        return renew(server.cluster.storage, server.call(**fields)) is not None

    assert renewed()
    assert server.cluster.storage.get(_KEY)["spec"]["renewTime"] == _LATER
    assert not renewed(changes={"spec": {"holderIdentity": "n2"}})
    assert not renewed(changes={"metadata": {"resourceVersion": "1"}})
    assert not renewed(changes={"spec": {"leaseDurationSeconds": 40.0}})
    assert not renewed(options={"dryRun": ["All"]})
    assert not renewed(changes={"spec": {"renewTime": "2026-11-29T10:00:10,000000Z"}})
