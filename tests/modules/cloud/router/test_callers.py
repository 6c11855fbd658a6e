"""Callers with tokens of a cluster."""

from itertools import pairwise
from typing import Any

import pytest

from beehive.http.request import Request
from beehive.simulation import Simulation
from modules.apimachinery.errors import ApiStatusError
from modules.cloud.client.calls import ApiCall, ApiResult
from modules.cloud.router import reviewed_callers
from modules.cloud.router.reviewed_callers import REMEMBERED_SECONDS, ReviewedCallers


class Reviews:
    """A cluster that knows one token, whose user may do some verbs in the namespace `cap`."""

    def __init__(self, *verbs: str) -> None:
        self.asked: list[tuple[str, Any]] = []
        self.is_down = False
        self._verbs = verbs

    def __call__(self, call: ApiCall) -> ApiResult:
        spec = call.body["spec"]
        self.asked.append((call.plural, spec))
        if self.is_down:
            return ApiResult(refusal={"code": 503, "message": "it is down"})
        if call.plural == "tokenreviews":
            user = {"username": "carol", "groups": ["a"], "extra": {"scope": ["x"]}}
            is_known = spec == {"token": "good"}
            return ApiResult({"status": {"authenticated": is_known or "no", "user": user}})
        wanted = spec["resourceAttributes"]
        is_right = (wanted["group"], wanted["resource"], wanted["subresource"]) == (
            "rules.kubeedge.io",
            "rules",
            "proxy",
        )
        is_carol = (spec["user"], spec["groups"], spec.get("extra")) == ("carol", ["a"], {"scope": ["x"]})
        allowed = is_right and is_carol and wanted["namespace"] == "cap"
        return ApiResult({"status": {"allowed": (allowed and wanted["verb"] in self._verbs) or "no"}})


def request(credentials: str, method: str = "GET", namespace: str = "cap") -> Request:
    headers = (("authorization", credentials),) if credentials else ()
    return Request(method=method, target="/", parts=("n1", namespace, "a"), headers=headers)


def code(callers: ReviewedCallers, asked: Request, reviews: Reviews) -> int:
    """The status of the refusal; 0 without one."""
    try:
        callers.check(asked, reviews)
    except ApiStatusError as error:
        return error.code
    return 0


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        (request("Bearer good"), 0),
        (request("bearer good", "HEAD"), 0),
        (request("Bearer good", "POST"), 403),
        (request("Bearer good", namespace="other"), 403),
        (request("Bearer bad"), 401),
        (request("Basic good"), 401),
        (request("Bearer "), 401),
        (request("Bearer " + "x" * 20_000), 401),
        (request(""), 401),
    ],
)
def test_a_caller_needs_a_token_and_the_right(asked: Request, status: int) -> None:
    """The verb follows from the method, and the namespace is the rule's."""
    reviews = Reviews("get")
    assert code(ReviewedCallers(Simulation().clock), asked, reviews) == status
    assert all(len(spec.get("token", "")) < 20_000 for _, spec in reviews.asked)


def test_a_decision_counts_for_its_verb_and_namespace_only() -> None:
    callers, reviews = ReviewedCallers(Simulation().clock), Reviews("get")
    asked = [request("Bearer good"), request("Bearer good", "DELETE"), request("Bearer good", namespace="other")]
    assert [code(callers, each, reviews) for each in asked] == [0, 403, 403]


def test_a_decision_counts_for_a_moment() -> None:
    """Also that a token is unknown; not that nobody could be asked."""
    simulation, reviews = Simulation(), Reviews("get")
    callers = ReviewedCallers(simulation.clock)
    reviews.is_down = True
    with pytest.raises(ApiStatusError, match="reviews no credentials: it is down") as refused:
        callers.check(request("Bearer good"), reviews)
    assert refused.value.code == 503
    reviews.is_down = False
    assert [code(callers, request("Bearer good"), reviews) for _ in range(3)] == [0, 0, 0]
    assert [code(callers, request("Bearer bad"), reviews) for _ in range(3)] == [401, 401, 401]
    assert len(reviews.asked) == 1 + 2 + 1
    simulation.run_for(REMEMBERED_SECONDS + 1)
    assert code(callers, request("Bearer good"), reviews) == 0
    assert len(reviews.asked) == 6


def test_of_many_decisions_the_newest_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that tries token after token fills no memory, and pushes out no decision that was just made."""
    monkeypatch.setattr(reviewed_callers, "_MOST", 2)
    simulation, reviews = Simulation(), Reviews("get")
    callers = ReviewedCallers(simulation.clock)

    def reviewed(*tokens: str) -> list[int]:
        counts = [len(reviews.asked)]
        for each in tokens:
            code(callers, request(f"Bearer {each}"), reviews)
            counts.append(len(reviews.asked))
        return [after - before for before, after in pairwise(counts)]

    assert reviewed("a", "b", "a") == [1, 1, 0]
    simulation.run_for(REMEMBERED_SECONDS + 1)
    assert reviewed("a", "c", "a", "c", "b", "a") == [1, 1, 0, 0, 1, 1]
