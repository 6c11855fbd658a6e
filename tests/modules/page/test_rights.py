"""What each question to the page of a fleet needs, and what is left out of an answer without a right."""

from collections.abc import Collection
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from beehive.errors import BeehiveError
from beehive.http.errors import HttpStatusError
from beehive.http.request import Request
from modules.apimachinery.node_job_kinds import JobKind
from modules.cloud.authorization.rbac.rules import AccessRequest
from modules.insight.fleet.jobs import JobCounts, JobRow, WaveRow
from modules.page.api import About, FleetApi
from modules.page.nodes import short_node
from modules.page.picture import Picture
from modules.page.shells import ClosedDoor
from tests.modules.page.test_service import Nothing

GROUP, JOBS = "devices.kubeedge.io", "operations.kubeedge.io"
HISTORY, DEVICE = ("history", "default", "hall", "t"), ("devices", "default", "hall")
NODES = AccessRequest(verb="list", resource="nodes")
PLURALS = {
    JobKind.NODE_UPGRADE: "nodeupgradejobs", JobKind.IMAGE_PRE_PULL: "imageprepulljobs",
    JobKind.CONFIG_UPDATE: "configupdatejobs",
}  # fmt: skip


def may(verb: str, resource: str, group: str = GROUP, namespace: str = "") -> AccessRequest:
    return AccessRequest(verb=verb, group=group, resource=resource, namespace=namespace)


class Questions:
    """A fleet of one node and a job of each kind, whose user lacks some rights."""

    def __init__(self, *refused: AccessRequest) -> None:
        self.asked, self.here = list[AccessRequest](), list[Collection[str] | None]()
        picture, counts = Picture(lambda: 50.0), JobCounts(nodes=1, waiting=1, away=1)
        picture.put_nodes([short_node({"metadata": {"name": "n1"}})])
        rows = [JobRow(kind.value, "up", "", "", "", 1.0, counts, waves=[WaveRow(1, counts)]) for kind in JobKind]

        def story(_kind: JobKind, _name: str, here: Collection[str] | None, _query: str) -> Any:
            self.here.append(here)
            return counts

        def why(_namespace: str, _name: str, _now: float, known: Any) -> dict[str, bool]:
            return {"knows": known("n1") is not None}

        def refusal(asked: AccessRequest) -> str:
            self.asked.append(asked)
            return "not this" if asked in refused else ""

        fleet: Any = SimpleNamespace(
            picture=picture, feeds=SimpleNamespace(start=lambda: None, start_and_wait=lambda: None), journals=Nothing(),
            devices=SimpleNamespace(facts=lambda: ([], False), story=lambda *_: counts, devices=lambda *_: counts),
            jobs=SimpleNamespace(rows=lambda _: rows, story=story),
        )  # fmt: skip
        stories: Any = SimpleNamespace(story=why, events_of_node=lambda _: None)
        self._api = FleetApi(fleet, stories, About("sock", "1", "cloudcore"), refusal=refusal, door=ClosedDoor(""))

    def get(self, *parts: str) -> Any:
        return msgspec.json.decode(self._api.serve(Request(method="GET", target="", parts=parts), parts).body)


@pytest.mark.parametrize(
    ("parts", "needed"),
    [
        (HISTORY, [may("get", "devicestatuses", namespace="default")]),
        (DEVICE, [may("get", each, namespace="default") for each in ("devices", "devicemodels", "devicestatuses")]),
        *((("rollouts", kind.value, "up"), [may("get", plural, JOBS)]) for kind, plural in PLURALS.items()),
        (("journal",), [AccessRequest(verb="get", path="/cloudcore/changes")]),
        (("nodes", "n1"), [NODES]),
    ],
)
def test_each_right_of_a_question_is_needed(parts: tuple[str, ...], needed: list[AccessRequest]) -> None:
    for refused in needed:
        with pytest.raises(HttpStatusError) as refusal:
            Questions(refused).get(*parts)
        assert refusal.value.status == 403, refused
    asked = Questions()
    try:
        asked.get(*parts)
    except BeehiveError as error:  # of what this fleet has not
        assert getattr(error, "status", 0) != 403
    assert asked.asked.count(needed[0]) >= 1


def test_without_the_right_to_nodes_nothing_tells_which_are_connected() -> None:
    everything, blind = Questions(), Questions(NODES)
    assert (bool(everything.get(*HISTORY)["gaps"]), bool(blind.get(*HISTORY)["gaps"])) == (True, False)
    assert (everything.get("explain", "shop", "web"), blind.get("explain", "shop", "web")) == (
        {"knows": True}, {"knows": False},
    )  # fmt: skip
    for each, here, away in ((everything, set(), 1), (blind, None, 0)):
        each.get("rollouts", JobKind.NODE_UPGRADE, "up")
        assert each.here == [here]
        rows = each.get("rollouts")["jobs"]["rows"]
        assert {row["counts"]["away"] for row in (*rows, *(wave for row in rows for wave in row["waves"]))} == {away}


@pytest.mark.parametrize("kind", JobKind)
def test_jobs_of_the_other_kinds_are_seen(kind: JobKind) -> None:
    answer = Questions(may("list", PLURALS[kind], JOBS)).get("rollouts")
    assert {row["kind"] for row in answer["jobs"]["rows"]} == {str(each) for each in JobKind} - {str(kind)}
    assert answer["forbidden"] == {"jobs": "not this"}
    nothing = Questions(*(may("list", plural, JOBS) for plural in PLURALS.values())).get("rollouts")
    assert nothing["jobs"] is None


@pytest.mark.parametrize("name", [".", ".."])
def test_a_job_is_named_by_no_step_of_a_path(name: str) -> None:
    with pytest.raises(HttpStatusError) as refused:
        Questions().get("rollouts", JobKind.NODE_UPGRADE, name)
    assert refused.value.status == 404
