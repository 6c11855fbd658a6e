"""What a cloudcore knows after a change of a record."""

from collections.abc import Callable
from typing import cast
from unittest.mock import Mock

import pytest

from beehive.message import Message
from beehive.module import Module
from beehive.testing import Harness
from modules.cloud.client.calls import ApiCall, ApiResult
from modules.cloud.identities.known import KnownIdentities
from modules.cloud.identities.records import NodeIdentity, Record, object_of
from modules.cloud.identities.store import IdentityStore, RecordChange

REVOKED = NodeIdentity(name="n1", key="k", revoked_at=5.0)
ALLOWED = NodeIdentity(name="n1", key="k")


@pytest.mark.parametrize(("before", "stored"), [(ALLOWED, REVOKED), (REVOKED, ALLOWED), (REVOKED, None)])
def test_a_record_that_needs_no_change_is_in_force_at_once(
    bee: Harness, before: NodeIdentity, stored: NodeIdentity | None
) -> None:
    """The answer to an earlier attempt was lost, and the watch is late."""
    obj = None if stored is None else object_of(stored, "kubeedge", None)
    found = ApiResult(object=obj) if obj is not None else ApiResult(refusal={"code": 404})

    def request(_to: str, _message: Message, _seconds: float, answered: Callable[[Message], None]) -> None:
        answered(bee.message("cloudcore/objects", "response", found))

    known = KnownIdentities(bee.clock)
    known.put(before, 3)
    store = IdentityStore(Mock(request=request), known, "kubeedge")
    told: list[list[Record]] = []
    store.change(("node", "n1"), lambda _: RecordChange(), lambda *_: told.append(known.records()))
    assert told == [[] if stored is None else [stored]], "before anybody is told"


class Api:
    """An API server that answers each verb with the same result; counts them."""

    def __init__(self, bee: Harness, **results: ApiResult) -> None:
        self._bee = bee
        self._results = results
        self.calls: list[str] = []

    def request(self, _to: str, message: Message, _seconds: float, answered: Callable[[Message], None]) -> None:
        verb = message.content_as(ApiCall).verb
        self.calls.append(verb)
        answered(self._bee.message("cloudcore/objects", "response", self._results[verb]))

    def message(self, resource: str, operation: str, content: object) -> Message:
        return self._bee.message(resource, operation, content)


def refused(code: int) -> ApiResult:
    return ApiResult(refusal={"code": code, "message": "no"})


@pytest.mark.parametrize(
    ("results", "calls", "words"),
    [
        ({"get": refused(503)}, ["get"], "cannot be changed: no"),
        ({"get": refused(404), "create": refused(404)}, ["get", "create"], "deploy/cloudcore.yaml"),
        ({"get": refused(404), "create": refused(409)}, ["get", "create"] * 8, "cannot be changed: no"),
    ],
)
def test_a_record_that_cannot_be_written_is_a_failure(
    bee: Harness, results: dict[str, ApiResult], calls: list[str], words: str
) -> None:
    """One that others keep writing, too, after some attempts; a missing namespace immediately."""
    api, known, told = Api(bee, **results), KnownIdentities(bee.clock), list[str]()
    store = IdentityStore(cast("Module", api), known, "kubeedge")
    store.change(("node", "n1"), lambda _: RecordChange(REVOKED), lambda _, why: told.append(why))
    assert api.calls == calls
    assert [words in why for why in told] == [True]
    assert known.records() == []


def test_a_record_that_was_written_is_in_force_at_once(bee: Harness) -> None:
    """Before the watch tells of it; a watch of an earlier version does not undo it."""
    made = object_of(REVOKED, "kubeedge", None)
    made["metadata"]["resourceVersion"] = "7"
    api, known = Api(bee, get=refused(404), create=ApiResult(object=made)), KnownIdentities(bee.clock)
    store = IdentityStore(cast("Module", api), known, "kubeedge")
    seen: list[object] = []
    store.change(("node", "n1"), lambda _: RecordChange(REVOKED), lambda *_: seen.extend(known.records()))
    assert seen == [REVOKED], "before anybody is told"
    known.put(ALLOWED, 6)
    assert known.records() == [REVOKED]


@pytest.fixture
def bee() -> Harness:
    return Harness()
