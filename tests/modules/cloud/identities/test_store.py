"""What a cloudcore knows after a change of a record."""

from collections.abc import Callable
from unittest.mock import Mock

import pytest

from beehive.message import Message
from beehive.testing import Harness
from modules.cloud.client.calls import ApiResult
from modules.cloud.identities.known import KnownIdentities
from modules.cloud.identities.records import NodeIdentity, object_of
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
    store.change(("node", "n1"), lambda _: RecordChange(), lambda *_: None)
    assert known.records() == ([] if stored is None else [stored])


@pytest.fixture
def bee() -> Harness:
    return Harness()
