"""What the cloud does not push: answered from the store at once, and refreshed behind (no pod waits for the cloud)."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from beehive import Message, ModuleName, Operation
from beehive.testing import Harness
from metamanager.remote_query import REFRESH_EVERY, RemoteQuery
from tests.metamanager.support import META, NOT_FOUND, cloud_answers, from_edged, module_of, node, store_of, thing

EDGED, CLOUD = ModuleName.EDGED, ModuleName.EDGEHUB
KINDS = ["null/persistentvolume/a", "default/persistentvolumeclaim/a", "null/volumeattachment/a"]
TOKEN = "default/serviceaccounttoken/sa"  # noqa: S105 - a resource
DAY = 24 * 3600


def ask(bee: Harness, resource: str, content: Any = None) -> Message:
    """edged's question, answered immediately or failed."""
    return bee.ask(META, from_edged(bee, resource, Operation.QUERY, content), 1)


def fill(bee: Harness, resource: str, version: int = 1, **fields: Any) -> None:
    """Have the store get it as it does: asked of the cloud."""
    cloud_answers(bee, lambda _: thing(version=version, **fields))
    ask(bee, resource)
    bee.settle()
    bee.run_for(REFRESH_EVERY + 1)
    bee.forget()


def test_questions_about_one_object_at_a_time_are_one_of_the_cloud() -> None:
    with node(connected=True) as bee:
        asked = [bee.future(META, from_edged(bee, "default/secret/s", Operation.QUERY)) for _ in range(3)]
        bee.settle()
        (question,) = bee.sent_to(CLOUD)
        bee.respond(question.reply(bee.clock, thing("s"), source="edgecontroller"))
        assert [each.get().content for each in asked] == [thing("s")] * 3


@pytest.mark.parametrize("resource", KINDS)
def test_a_stored_one_is_answered_although_the_cloud_is_silent(resource: str) -> None:
    """The cloud is still asked, and its silence has no effect."""
    with node(connected=True) as bee:
        fill(bee, resource)
        bee.answer(CLOUD, lambda _: None)
        assert '"1"' in ask(bee, resource).content[0]
        bee.run_for(100)
        assert [one.route.source for one in bee.sent_to(CLOUD)] == [EDGED]
        assert bee.sent_to(EDGED) == []


@pytest.mark.parametrize("resource", KINDS)
def test_changed_objects_are_stored_and_sent(resource: str) -> None:
    """As if the cloud had sent it by itself; what is the same is not."""
    with node(connected=True) as bee:
        fill(bee, resource)
        cloud_answers(bee, lambda _: {"Object": thing(version=2), "Err": None})
        assert '"1"' in ask(bee, resource).content[0]
        bee.settle()
        (news,) = bee.sent_to(EDGED)
        assert (news.route.operation, news.route.resource) == (Operation.UPDATE, resource)
        assert news.content_as(dict)["metadata"]["resourceVersion"] == "2"
        bee.run_for(REFRESH_EVERY + 1)
        bee.forget()
        assert '"2"' in ask(bee, resource).content[0]
        bee.settle()
        assert len(bee.sent_to(CLOUD)) == 1
        assert bee.sent_to(EDGED) == []


@pytest.mark.parametrize("resource", KINDS)
def test_an_older_state_is_neither_stored_nor_sent(resource: str) -> None:
    """Another cloudcore may be behind the one that answered before."""
    with node(connected=True) as bee:
        fill(bee, resource, version=2)
        cloud_answers(bee, lambda _: thing(version=1))
        ask(bee, resource)
        bee.settle()
        assert bee.sent_to(EDGED) == []
        assert '"2"' in (store_of(bee).get(resource) or "")


def test_a_pod_that_waits_for_its_volume_does_not_ask_again_and_again() -> None:
    with node(connected=True) as bee:
        fill(bee, KINDS[0])
        for _ in range(5):
            ask(bee, KINDS[0])
            bee.settle()  # also when the cloud has answered
        assert len(bee.sent_to(CLOUD)) == 1


def test_a_clock_that_is_set_back_delays_no_refresh() -> None:
    with node(connected=True) as bee:
        fill(bee, KINDS[0])
        for _ in range(2):
            ask(bee, KINDS[0])
            bee.clock.jump_wall(-3600.0)
            bee.run_for(REFRESH_EVERY)
        assert len(bee.sent_to(CLOUD)) == 2


def test_the_times_of_few_refreshes_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("metamanager.remote_query._REMEMBERED", 2)
    with node(connected=True) as bee:
        query = RemoteQuery(module_of(bee), 60.0, lambda *_: None)
        for number in range(5):
            query.refresh(from_edged(bee, f"null/persistentvolume/{number}", Operation.QUERY))
            assert len(query._refreshed) <= 2


def test_a_refusal_changes_nothing() -> None:
    """The node goes on with what it has: who deletes it says so."""
    with node(connected=True) as bee:
        fill(bee, KINDS[1])
        cloud_answers(bee, lambda _: NOT_FOUND)
        assert '"1"' in ask(bee, KINDS[1]).content[0]
        bee.settle()
        assert store_of(bee).get(KINDS[1]) is not None


@pytest.mark.parametrize(
    ("life", "left", "asked"),
    [
        ({"expirationSeconds": 3600}, 1800, 0),
        ({"expirationSeconds": 3600}, 360, 1),
        ({}, 1800, 0),
        ({}, 360, 1),
        ({"expirationSeconds": 10 * DAY}, 9 * DAY + 60, 0),
        ({"expirationSeconds": 10 * DAY}, 9 * DAY - 60, 1),
    ],
)
def test_a_stored_token_is_used_again_for_four_fifths_of_its_life_and_at_most_a_day(
    life: dict[str, int], left: float, asked: int
) -> None:
    """Without a word to the cloud; later another one is asked for."""
    request = {"spec": {"audiences": ["a"], **life, "boundObjectRef": {"uid": "pod-1"}}}
    with node(connected=True) as bee:
        end = datetime.fromtimestamp(bee.clock.now(), UTC) + timedelta(seconds=left)
        status = {"token": "abc", "expirationTimestamp": end.isoformat()}
        cloud_answers(bee, lambda question: {**question.content_as(dict), "status": status})
        ask(bee, TOKEN, request)
        bee.settle()
        bee.forget()
        answer = ask(bee, TOKEN, request)
        assert "abc" in str(answer.content)
        assert len(bee.sent_to(CLOUD)) == asked
