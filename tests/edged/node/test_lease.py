"""The lease of the node, request by request."""

from collections.abc import Callable
from typing import Any

import pytest

from beehive.names import ResourceType
from edged.devices.manager import DeviceManager
from edged.devices.pod_devices import Checkpoint
from edged.node.lease import LeaseController
from edged.node.state import LocalNode
from edged.settings import EdgedSettings
from metamanager.client import ConflictError, NoAnswerError, NotConnectedError
from modules.apimachinery.types import Node, ObjectMeta
from tests.edged.status.meta_requests import NOT_FOUND, MetaRequests, rejected

LEASE = {"metadata": {"name": "n1", "resourceVersion": "3"}, "spec": {"holderIdentity": "n1"}}
NODE = Node(metadata=ObjectMeta(name="n1", uid="nu"))
AWAY, LOST, FAILED = NotConnectedError("ask", "it"), NoAnswerError("ask", "it"), rejected(500)
REFUSED = rejected(403)


class Leased:
    """A controller of the lease of a registered node."""

    def __init__(self, root: Any) -> None:
        self.requests = MetaRequests()
        self.node = LocalNode(DeviceManager(self.requests.clock, root / "devices", Checkpoint(), lambda: None))
        self.node.set_node(registered=NODE, known=NODE)
        settings = EdgedSettings(node_name="n1", root=root, pod_logs=root, runtime_endpoint="", lease_duration=40)
        self.refused: list[bool] = []

        def refused(*, gone: bool) -> None:
            self.refused.append(gone)

        self.lease = LeaseController(self.requests.client, self.requests.clock, settings, self.node, refused)


@pytest.fixture
def leased(tmp_path: Any) -> Leased:
    return Leased(tmp_path)


def _reads(leased: Leased) -> None:
    leased.lease.renew()


def _creates(leased: Leased) -> None:
    leased.lease.renew()
    leased.requests.answer(NOT_FOUND)


def _renews(leased: Leased) -> None:
    leased.lease.renew()
    leased.requests.answer(LEASE)


WAYS = [(_reads, "get lease"), (_creates, "create lease"), (_renews, "update lease")]


@pytest.mark.parametrize(("begin", "request_"), WAYS)
def test_one_request_about_the_lease_is_under_way(
    leased: Leased, begin: Callable[[Leased], None], request_: str
) -> None:
    """However often a renewal is due while the cloud is slow."""
    begin(leased)
    leased.lease.renew()
    leased.lease.renew(is_known=True)
    assert leased.requests.asked() == [request_]
    [request] = leased.requests.open
    assert (request.kind, request.name) == (ResourceType.LEASE, "n1")


@pytest.mark.parametrize("error", [AWAY, LOST, FAILED, REFUSED, rejected(409, ConflictError), b"[}"])
@pytest.mark.parametrize(("begin", "request_"), WAYS)
def test_after_an_error_the_next_renewal_is_sent(
    leased: Leased, begin: Callable[[Leased], None], request_: str, error: object
) -> None:
    """None follows the error itself. A lease that was refused is read before, for it may be gone or newer."""
    begin(leased)
    leased.refused.clear()
    leased.requests.answer(error)
    assert leased.requests.open == []
    refused = error in (FAILED, REFUSED) or isinstance(error, ConflictError)
    assert leased.refused == ([False] if refused else [])
    leased.lease.renew()
    is_kept = request_ == "update lease" and not refused
    assert leased.requests.asked() == ["update lease" if is_kept else "get lease"]


def test_a_new_lease_is_the_nodes_and_is_renewed_in_place(leased: Leased) -> None:
    leased.lease.renew(is_known=True)
    leased.requests.answer(NOT_FOUND)
    made = leased.requests.open[0].value
    assert (made["metadata"]["namespace"], made["metadata"]["ownerReferences"][0]["uid"]) == ("kube-node-lease", "nu")
    assert (made["spec"]["holderIdentity"], made["spec"]["leaseDurationSeconds"]) == ("n1", 40)
    leased.requests.answer({**made, "metadata": {**made["metadata"], "resourceVersion": "8"}})
    assert leased.requests.open == [], "it has just been made"
    leased.requests.run(10)
    leased.lease.renew()
    renewed = leased.requests.open[0].value
    assert renewed["metadata"]["resourceVersion"] == "8"
    assert renewed["spec"]["renewTime"] > made["spec"]["renewTime"]


@pytest.mark.parametrize("is_known", [False, True])
def test_a_missing_lease_makes_the_node_doubtful_unless_the_cloud_has_just_acknowledged_it(
    leased: Leased, *, is_known: bool
) -> None:
    leased.lease.renew(is_known=is_known)
    leased.requests.answer(NOT_FOUND)
    assert leased.refused == ([] if is_known else [False])
    assert leased.requests.asked() == ["create lease"]


def test_a_lease_that_was_deleted_shows_that_the_node_may_be_gone(leased: Leased) -> None:
    _renews(leased)
    leased.requests.answer(NOT_FOUND)
    assert leased.refused == [True]


def test_a_node_that_is_gone_gets_no_lease(leased: Leased) -> None:
    """Neither when it went while the lease was read; the lease of the next one is read."""
    leased.lease.renew()
    leased.node.set_node(registered=None, known=NODE)
    leased.requests.answer(NOT_FOUND)
    assert leased.requests.open == []
    leased.lease.renew()
    assert leased.requests.open == []
    leased.node.set_node(registered=NODE, known=NODE)
    leased.lease.renew()
    leased.requests.answer(LEASE)
    leased.requests.answer(LEASE)
    leased.lease.forget()
    leased.lease.renew()
    assert leased.requests.asked() == ["get lease"]
