"""The signing requests that a node makes: a hundred, however many others there are."""

from collections.abc import Iterator
from typing import Any

import pytest

from beehive.testing import Harness
from modules.apimachinery.kinds import JsonObject
from modules.cloud.client.calls import ApiCall, ApiResult
from modules.cloud.edgecontroller.module import EdgeController
from tests.modules.cloud.edgecontroller.cluster_server import ClusterController, FakeExchange

PLURAL, NAME = "certificatesigningrequests", "system:node:n1"
SPEC: JsonObject = {"request": "", "signerName": "s", "usages": [], "username": NAME}


def requests_of(user: str, count: int) -> list[JsonObject]:
    """Stored signing requests of a user."""
    return [{"metadata": {"name": f"{user}-{number}"}, "spec": {"username": user}} for number in range(count)]


class Site:
    """A node, and an API server with pages of signing requests."""

    def __init__(self, bee: Harness) -> None:
        self.core = ClusterController(bee)
        self.core.server.answers[PLURAL] = self._answer
        self.pages: list[list[JsonObject]] = [[]]
        self.listed: list[dict[str, str]] = []
        """The query of each list."""
        self.created: list[JsonObject] = []

    def by_message(self) -> list[int]:
        """The node asks for a certificate; the code of the refusal, or 0."""
        content = {"metadata": {"name": "mine"}, "spec": SPEC}
        request = self.core.asks("null/certificatesigningrequest/mine", "insert", content)
        error = self.core.answer_to(request).content["Err"]
        return [error["ErrStatus"]["code"] if error else 0]

    def by_metaserver(self, *names: str) -> list[int]:
        """Its metaserver asks at the same time for certificates; the codes of the refusals, or 0."""
        answers = []
        for name in names or ("mine",):
            body = {"metadata": {"name": name}, "spec": SPEC}
            call = ApiCall(verb="create", api_version="certificates.k8s.io/v1", plural=PLURAL, node="n1", body=body)
            request = self.core.bee.message("cloudcore/objects", "call", call, source="dynamiccontroller")
            answers.append(self.core.bee.future(EdgeController.name, request))
        self.core.bee.run_for(1.0)
        results = [answer.get().content_as(ApiResult) for answer in answers]
        return [int((result.refusal or {}).get("code", 0)) for result in results]

    def _answer(self, exchange: FakeExchange) -> None:
        if exchange.call.verb == "create":
            self.created.append(exchange.call.body)
            self.pages[-1].append(exchange.call.body)
            exchange.answer(201, {"kind": "CertificateSigningRequest", **exchange.call.body})
            return
        self.listed.append(exchange.query)
        at = int(exchange.query.get("continue") or "0")
        following = str(at + 1) if at + 1 < len(self.pages) else ""
        exchange.answer(200, {"metadata": {"continue": following}, "items": self.pages[at]})


@pytest.fixture
def site() -> Iterator[Site]:
    with Harness() as bee:
        yield Site(bee)


WAYS: list[Any] = [Site.by_message, Site.by_metaserver]


@pytest.mark.parametrize("ask", WAYS)
def test_they_are_counted_page_by_page(site: Site, ask: Any) -> None:
    others = requests_of("system:node:n2", 500)
    site.pages = [others, others, requests_of(NAME, 99)]
    assert ask(site) == [0]
    assert [query.get("continue") for query in site.listed] == [None, "1", "2"]
    assert {query["limit"] for query in site.listed} == {"500"}
    assert [made["spec"]["username"] for made in site.created] == [NAME]


@pytest.mark.parametrize("pages", [[100], [60, 40, 1]])
@pytest.mark.parametrize("ask", WAYS)
def test_a_hundred_are_enough(site: Site, ask: Any, pages: list[int]) -> None:
    """No further page is read then."""
    site.pages = [requests_of(NAME, count) for count in [*pages, 0]]
    assert ask(site) == [403]
    assert len(site.listed) == len([count for count in pages if count > 1])
    assert site.created == []


def test_of_requests_at_the_same_time_each_counts_for_the_next(site: Site) -> None:
    site.pages = [requests_of(NAME, 98)]
    assert sorted(site.by_metaserver("a", "b", "c", "d")) == [0, 0, 403, 403]


def test_a_request_is_refused_when_the_others_cannot_be_counted(site: Site) -> None:
    site.core.server.answers[PLURAL] = lambda exchange: exchange.answer(403, {"kind": "Status", "message": "no"})
    assert site.by_metaserver("a", "b") == [403, 403]
