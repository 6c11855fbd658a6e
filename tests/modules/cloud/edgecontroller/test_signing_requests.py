"""The signing requests that a node makes: a hundred, however many others there are."""

from typing import Any

import pytest

from beehive.clock import RealClock
from beehive.message import Message
from modules.apimachinery.kinds import JsonObject
from modules.cloud.client.calls import ApiCall
from modules.cloud.edgecontroller.upstream.objects import create_signing_request
from modules.cloud.edgecontroller.upstream.requests import UpstreamRequest

NAME = "system:node:n1"


def requests_of(user: str, count: int) -> list[JsonObject]:
    """Stored signing requests of a user."""
    return [{"spec": {"username": user}} for _ in range(count)]


def asked_for(pages: list[list[JsonObject]]) -> tuple[list[ApiCall], Any]:
    """The calls that are made for one request when the API server has these pages, and what follows."""
    content = {"metadata": {"name": "mine"}, "spec": {"request": "", "signerName": "s", "usages": []}}
    message = Message.new(
        RealClock(), source="edged", resource="null/certificatesigningrequest/mine", operation="insert", content=content
    )
    steps = create_signing_request(UpstreamRequest("n1", "", "mine", message))
    calls = []
    try:
        call = next(steps)
        while True:
            calls.append(call)
            if call.verb != "list":
                call = steps.send({"kind": "CertificateSigningRequest", **call.body})
                continue
            at = int(call.options.get("continue") or "0")
            following = str(at + 1) if at + 1 < len(pages) else ""
            call = steps.send({"metadata": {"continue": following}, "items": pages[at]})
    except StopIteration as end:
        return calls, end.value


def test_they_are_counted_page_by_page() -> None:
    others = requests_of("system:node:n2", 500)
    calls, _ = asked_for([others, others, requests_of(NAME, 99)])
    assert [call.options.get("continue") for call in calls[:3]] == [None, "1", "2"]
    assert {call.options["limit"] for call in calls[:3]} == {500}
    assert [call.verb for call in calls] == ["list", "list", "list", "create"]
    assert calls[-1].body["spec"]["username"] == NAME


@pytest.mark.parametrize("pages", [[100], [60, 40, 1]])
def test_a_hundred_are_enough(pages: list[int]) -> None:
    """No further page is read then."""
    calls, results = asked_for([requests_of(NAME, count) for count in [*pages, 0]])
    assert [call.verb for call in calls] == ["list"] * len([count for count in pages if count > 1])
    assert "has 100 already" in str(results[0].content)
