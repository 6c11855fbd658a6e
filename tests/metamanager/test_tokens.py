"""What is read out of a TokenRequest, whatever the cloud answers."""

from collections.abc import Iterator
from typing import Any

import pytest

from beehive import Message, Operation
from beehive.testing import Harness
from metamanager.tokens import bound_uid, expires_at, is_fresh, token_key, token_row
from tests.metamanager.support import META, cloud_answers, from_edged, node, store_of

RESOURCE = "default/serviceaccounttoken/shop"
REQUEST: dict[str, Any] = {"spec": {"boundObjectRef": {"kind": "Pod", "name": "web", "uid": "u1"}}}


@pytest.fixture
def bee() -> Iterator[Harness]:
    with node(connected=True) as harness:
        yield harness


@pytest.mark.parametrize(
    "value", ["{}", "[]", "nonsense", '{"status":null}', '{"status":{}}', '{"status":{"expirationTimestamp":"soon"}}']
)
def test_what_is_no_token_has_no_end_and_no_owner_and_is_not_kept(bee: Harness, value: str) -> None:
    assert (expires_at(value), is_fresh(value, 0.0), bound_uid(value)) == (None, False, "")
    assert token_row(from_edged(bee, RESOURCE, Operation.QUERY, REQUEST), value.encode(), 0) is None


def test_the_key_of_a_request_without_a_lifetime_has_zero(bee: Harness) -> None:
    """As Go's."""
    key = token_key(from_edged(bee, RESOURCE, Operation.QUERY, REQUEST))
    assert key == (
        '"shop"/"default"/[]string(nil)/0/v1.BoundObjectReference{Kind:"Pod", APIVersion:"", Name:"web", UID:"u1"}'
    )


def test_a_renewed_token_replaces_the_one_before(bee: Harness) -> None:
    """Neither has a version."""
    numbers = iter((1, 2))

    def grant(question: Message) -> dict[str, Any]:
        status = {"token": f"t{next(numbers)}", "expirationTimestamp": "2001-01-01T00:00:00Z"}
        return {**question.content_as(dict), "status": status}

    cloud_answers(bee, grant)
    for _ in range(2):
        bee.ask(META, from_edged(bee, RESOURCE, Operation.QUERY, REQUEST))
        bee.settle()
    (stored,) = store_of(bee).get_all("serviceaccounttoken")
    assert '"t2"' in stored
    assert bound_uid(stored) == "u1"
