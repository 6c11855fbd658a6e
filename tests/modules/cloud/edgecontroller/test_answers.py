"""Each request of a node has one answer, whatever fails half-way: the node waits for it, and takes no second one."""

from collections.abc import Callable
from typing import Any, Final

import pytest

from beehive.testing import Harness
from modules.cloud.cloudhub.routing import OBJECT_REQUESTS
from modules.cloud.edgecontroller.module import EdgeController
from modules.cloud.storage.database.database import Database
from modules.cloud.storage.database.errors import DatabaseError
from tests.modules.cloud.edgecontroller.cluster_server import ClusterController
from tests.modules.cloud.edgecontroller.controller import USES, WEB
from tests.modules.cloud.objects import configmap, node, pod, secret
from tests.support.failing import Failing
from tests.support.slow import EXTENDED, one_in

UNANSWERED: Final = {
    ("event", "insert"), ("event", "update"), ("event", "patch"), ("podstatus", "update"), ("nodestatus", "update"),
}  # fmt: skip
"""What a node does not wait for. A refusal may come all the same, of which a node takes no notice."""
NAMES: Final = {
    "node": "n1", "nodepatch": "n1", "nodestatus": "n1", "lease": "n1", "configmap": "settings", "secret": "key",
    "serviceaccounttoken": "default",
}  # fmt: skip
PATCH: Final = '{"status":{"phase":"Running"}}'
CONTENTS: Final[dict[tuple[str, str], Any]] = {
    ("node", "insert"): node("n1"),
    ("node", "update"): {"metadata": {"labels": {"a": "b"}}},
    ("nodepatch", "patch"): PATCH,
    ("podpatch", "patch"): PATCH,
    ("nodestatus", "insert"): node("n1"),
    ("nodestatus", "update"): {"Status": {"phase": "Running"}},
    ("pod", "insert"): pod("mirror"),
    ("pod", "delete"): {"gracePeriodSeconds": 0},
    ("podstatus", "update"): [{"Name": "web", "Status": {"phase": "Running"}}],
    ("lease", "insert"): {"spec": {"holderIdentity": "n1"}},
    ("lease", "update"): {"spec": {"holderIdentity": "n1"}},
    ("serviceaccounttoken", "query"): {"spec": {"audiences": []}},
    ("device", "query"): {"metadata": {"uid": "u"}},
    ("devicemodel", "query"): {"metadata": {"uid": "u"}},
}
HELD: Final = ("pods", "nodes", "leases", "configmaps", "secrets", "events", "serviceaccounts", "devices")


def no_room() -> DatabaseError:
    """A new error: one that is raised again and again keeps the frames of all times, and each log line has them."""
    return DatabaseError("commit", "version 1", "the disk is full")


def answers(
    bee: Harness, kind: str, operation: str, fails: Callable[[Database], None], *, held: bool, commits_between: bool
) -> int:
    """The number of answers to a request, if calls of the database fail, and the API server is late.

    In the batch of the request is an acknowledgement, for which there is a commit, perhaps after another one.
    """
    bee.expect_failures(str(no_room()))
    core = ClusterController(bee)
    core.server.apply({**node("n1"), "kind": "Node", "apiVersion": "v1"}, configmap(), secret(), pod("web", **USES))
    bee.settle()
    uid = core.server.cluster.storage.get(WEB)["metadata"]["uid"]
    fails(core.database)
    for plural in HELD if held else ():
        core.server.hold(plural)
    space = "kube-node-lease" if kind == "lease" else "default"
    name = "mirror" if (kind, operation) == ("pod", "insert") else NAMES.get(kind, "web")
    content, source = CONTENTS.get((kind, operation)), "system:node:n1"
    request = bee.message(f"node/n1/{space}/{kind}/{name}", operation, content, source=source, group="meta")
    bee.hive.send(EdgeController.name, request)
    if commits_between:
        running: Any = bee.hive.slot(EdgeController.name).running
        module = running.ref._actor_weakref()
        module.call_soon(module._poll_database)
    core.acknowledged(uid, 1)
    bee.run_for(1.0)
    core.acknowledged(uid, 2)
    bee.run_for(20.0)
    core.server.release()
    bee.run_for(60.0)
    return [each.parent_id for each in bee.sent_to("cloudhub")].count(request.id)


@pytest.mark.parametrize(
    ("held", "commits_between"),
    [(False, False), (True, False), (False, True)],
    ids=["", "the API server is late", "a commit between"],
)
@pytest.mark.parametrize("asked", one_in(4, sorted(OBJECT_REQUESTS), EXTENDED))
def test_a_request_is_answered_once_whatever_fails(
    asked: tuple[str, str], *, held: bool, commits_between: bool
) -> None:
    """A call of the database fails, for each of the next ones, or no commit passes for half a minute."""
    kind, operation = asked
    wanted = {0, 1} if (kind, operation) in UNANSWERED else {1}

    def nth(database: Database) -> None:
        for name in ("begin", "commit"):
            setattr(database, name, failing.call(getattr(database, name)))

    def full(database: Database) -> None:
        commit, since = database.commit, bee.clock.monotonic()

        def fail(version: int) -> None:
            if bee.clock.monotonic() - since < 30.0:
                raise no_room()
            commit(version)

        database.commit = fail  # type: ignore[method-assign]

    for at in range(1, 4):
        failing = Failing(at, no_room())
        with Harness() as bee:
            assert answers(bee, kind, operation, nth, held=held, commits_between=commits_between) in wanted, (
                f"call {at} fails"
            )
        assert failing.has_failed
    with Harness() as bee:
        assert answers(bee, kind, operation, full, held=held, commits_between=commits_between) in wanted, (
            "no commit passes"
        )
