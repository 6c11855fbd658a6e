"""What needs attention: each rule with a planted fault, and fleets without one."""

import msgspec
import pytest

from modules.insight.fleet.devices import DeviceFacts, DevicePropertyRow
from modules.insight.fleet.findings import Fleet, findings
from modules.insight.fleet.lacks import Lack
from modules.insight.fleet.rows import FleetPodRow, NodeRow, gaps_of, pod_row
from modules.insight.fleet.sentences import (
    SentencePart,
    certificate_words,
    fleet_sentence,
    node_sentence,
    pods_sentence,
)

NOW = 1_000_000.0
OLD = "1970-01-05T00:00:00Z"
DAY = 86_400.0


def node(name: str, state: str = "connected", **fields: object) -> NodeRow:
    """Return a row."""
    return NodeRow(name, state, **fields)  # type: ignore[arg-type]  # fields of the row


def pod(name: str, status: str = "Running", ready: str = "1/1", **fields: object) -> FleetPodRow:
    """Return a row."""
    values = {"node": "n1", "created": OLD, "is_troubled": status != "Running" or ready != "1/1", **fields}
    return FleetPodRow("shop", name, status=status, ready=ready, **values)  # type: ignore[arg-type]  # fields of the row


def said(nodes: list[NodeRow], pods: list[FleetPodRow] | None = None) -> list[str]:
    """Return the sentences of the findings."""
    return [each.sentence for each in findings(Fleet(nodes, pods or [], NOW))[0]]


def test_a_fleet_without_trouble_has_no_finding() -> None:
    assert said([node("n1", certificate_ends=NOW + 20 * DAY)], [pod("web")]) == []
    assert said([], []) == []


def test_nodes_that_went_together_are_one_finding() -> None:
    lost = [node(f"h{each}", "away", since=NOW - 3600.0 + each, zone="hamburg", pods=2) for each in range(9)]
    (found,), number = findings(Fleet([*lost, node("n1")], [], NOW))
    assert (found.sentence, number) == ("9 nodes of hamburg went away together", 1)
    assert found.detail == "60m ago · 18 pods were bound to them"
    assert found.nodes == tuple(f"h{each}" for each in range(9))


def test_nodes_that_went_at_different_times_are_single_and_counted_beyond_three() -> None:
    rows = [node(f"n{each}", "away", since=NOW - 3600.0 * (each + 1), last_word="no route") for each in range(5)]
    assert said(rows) == ["2 more nodes are away", "n0 is away", "n1 is away", "n2 is away"]
    assert said(rows[:4]) == ["n0 is away", "n1 is away", "n2 is away", "1 more node is away"]
    assert said([node(f"n{each}", "away") for each in range(3)]) == ["n0 is away", "n1 is away", "n2 is away"], (
        "unknown"
    )


def test_nodes_that_went_one_after_the_other_did_not_go_together() -> None:
    """A group is at most a minute long, and has no pause of more than twenty seconds."""
    for seconds, sentences in (
        ((0.0, 21.0, 42.0), {"n0 is away", "n1 is away", "n2 is away"}),
        ((0.0, 20.0, 40.0, 59.0, 61.0, 81.0), {"4 nodes went away together", "n4 is away", "n5 is away"}),
    ):
        rows = [node(f"n{each}", "away", since=NOW - 900.0 + at) for each, at in enumerate(seconds)]
        assert set(said(rows)) == sentences


def test_bad_findings_come_first() -> None:
    rows = [node("n0", "away", since=NOW - 900.0), *(node(f"n{each}", marks=("DiskPressure",)) for each in (1, 2, 3))]
    assert [each.mark for each in findings(Fleet(rows, [], NOW))[0]] == ["bad", "warn"]


def test_a_refusal_has_no_advice_but_its_reason() -> None:
    rows = [node("n1", "away", reason="its connection is refused: revoked", since=NOW - 900.0)]
    (found,), _ = findings(Fleet(rows, [], NOW))
    assert found.remedy == ""
    said = "no answer: disk full"
    for word, detail in (("disk full", said), ("closed", f"{said} · closed"), ("", said)):
        (found,), _ = findings(Fleet([node("n1", "behind", reason=said, last_word=word)], [], NOW))
        assert found.detail == detail


def test_the_clocks_of_many_nodes_are_one_finding() -> None:
    rows = [node(f"n{each}", clock_ahead=120) for each in range(4)]
    assert said(rows) == ["The clocks of n0, n1, n2 and 1 more are wrong"]
    assert said(rows[:3]) == [f"The clock of n{each} is 2m ahead" for each in range(3)]


def test_what_nodes_that_went_together_share() -> None:
    by_address = [node(f"n{each}", "away", since=NOW - 99.0, address="192.0.2.1") for each in range(3)]
    assert said(by_address) == ["3 nodes that came from 192.0.2.1 went away together"]
    nothing = [node(f"n{each}", "away", since=NOW - 99.0, address=f"192.0.2.{each}") for each in range(3)]
    assert said(nothing) == ["3 nodes went away together"]


def test_nodes_behind_for_the_same_reason_are_one_finding() -> None:
    reason = "it has not acknowledged a message for {}s"
    rows = [node("n1", "behind", reason=reason.format(61)), node("n2", "behind", reason=reason.format(75))]
    assert said(rows) == ["n1 and n2 are behind"]


def test_a_node_that_a_job_starts_again_is_not_lost() -> None:
    """However long it is away: the job gives it up."""
    why = "it is being upgraded by NodeUpgradeJob up"
    rows = [node(f"n{each}", "away", since=NOW - 99.0, reason=why) for each in range(3)]
    rows.append(node("n4", "lost", reason="it is getting other settings by ConfigUpdateJob slow"))
    found = findings(Fleet(rows, [], NOW))[0]
    assert [(each.rule, each.sentence, each.command) for each in found] == [
        ("node-changing", "n0, n1 and n2 are being upgraded by NodeUpgradeJob up", "cloudcore upgrade status up"),
        ("node-changing", "n4 is getting other settings by ConfigUpdateJob slow", "cloudcore upgrade status slow"),
    ]
    assert not any("edgecore running there" in each.remedy for each in found)
    words = [part.text for part in fleet_sentence([*rows[:2], node("n5"), node("n6", "lost")])]
    assert "".join(words) == "1 of 4 nodes is connected; 2 are being changed by a job, 1 is lost."
    assert node_sentence(rows[0], NOW) == (
        "n0 is being upgraded by NodeUpgradeJob up, and has had no connection for 99s; no pod is bound to it."
    )


def test_certificates() -> None:
    ends = {"away": 13.0, "connected": 2.5}
    rows = [node(name, name, certificate_ends=NOW + days * DAY) for name, days in ends.items()]
    rows += [node("ended", "connected", certificate_ends=NOW - 1.0), node("soon", certificate_ends=NOW + 4 * DAY)]
    sentences = [each for each in said(rows) if each.startswith("The certificate")]
    assert sentences == [
        "The certificate of away ends in 13 days, and it is away",
        "The certificate of connected ends in 2 days",
        "The certificate of ended has ended",
    ]


def test_a_certificate_that_has_ended_needs_another_join() -> None:
    (found,), _ = findings(Fleet([node("n1", certificate_ends=NOW - 1.0)], [], NOW))
    assert found.remedy == "it must join again: `cloudcore token --node n1` here, then `edgecore join` there"


def test_the_sentence_of_a_node() -> None:
    since = NOW - 7200.0
    assert node_sentence(node("n1", since=since, pods=1, ready=1, certificate_ends=NOW + 15 * DAY), NOW) == (
        "n1 has been connected for 120m, and 1 of 1 pod runs."
    )
    assert node_sentence(node("n1", "away", since=since, pods=2, certificate_ends=NOW + 3.5 * DAY), NOW) == (
        "n1 has been away for 120m; when it was last heard of, 0 of 2 pods ran; its certificate ends in 3 days."
    )
    assert node_sentence(node("n1", "behind", reason="it reads slowly", certificate_ends=NOW - 1.0), NOW) == (
        "n1 is behind: it reads slowly; no pod is bound to it; its certificate has ended."
    )
    assert node_sentence(node("n1", "never", certificate_ends=NOW + 3600.0), NOW) == (
        "n1 has never been connected; its certificate ends in 60m."
    )


def overdue(name: str, on: str = "n1", ago: float = 600.0) -> DeviceFacts:
    """Return a device that reported some time ago, which should have done so again five minutes ago."""
    due = DevicePropertyRow("t", reported_at=NOW - ago, due=NOW - 300.0)
    return DeviceFacts("shop", name, on, "m", "", "", 1, 0, due, due, NOW - ago, is_heard=True, mapper="no mapper")


def test_overdue_devices_of_nodes_that_are_here_are_one_finding() -> None:
    rows = [node("n1"), node("n2"), node("gone", "away", since=NOW - 99.0)]
    one = [overdue("hall"), overdue("far", "gone")]
    found = [each for each in findings(Fleet(rows, [], NOW, devices=one))[0] if each.rule == "devices-overdue"]
    assert [(each.sentence, each.detail, each.devices) for each in found] == [
        (
            "shop/hall on n1 is overdue",
            "t was reported 10m ago by its node's clock, and should have been since; no mapper",
            ("shop/hall",),
        )
    ]
    several = [overdue("a"), overdue("b", "n2", 1200.0), overdue("c"), overdue("d")]
    (found,) = findings(Fleet(rows[:2], [], NOW, devices=several))[:1]
    assert [(each.sentence, each.devices[0], len(each.devices)) for each in found] == [
        ("4 devices on n1 and n2 are overdue", "shop/b", 3)
    ]


def test_a_refused_device_is_another_finding_than_a_silent_one() -> None:
    """A mapper that has ended is started; one that refuses the device runs."""
    silent = msgspec.structs.replace(overdue("hall"), state="unknown", due=None)
    both = [silent, msgspec.structs.replace(silent, name="odd", refusal="no driver for the model boilr")]
    found = findings(Fleet([node("n1")], [], NOW, devices=both))[0]
    assert [(each.sentence, "does its mapper run" in each.remedy) for each in found] == [
        ("shop/hall on n1 is in a state that is not known", True), ("shop/odd on n1 is refused by its mapper", False),
    ]  # fmt: skip
    assert found[1].detail.endswith("its mapper refuses it: no driver for the model boilr")


def test_devices_of_a_node_that_is_not_there() -> None:
    """They are one finding also if that node, which is gone, has called one of them ill."""
    hall, door = (msgspec.structs.replace(overdue(name), node="edge-1", due=None) for name in ("hall", "door"))
    devices = [hall, msgspec.structs.replace(door, state="offline")]
    (found,), _ = findings(Fleet([node("n1")], [], NOW, devices=devices))
    assert findings(Fleet([], [], NOW, devices=devices)) == ([], 0), "nobody may see nodes, or none has joined yet"
    assert (found.sentence, found.detail) == (
        "shop/hall and shop/door are for a node that is not there", "spec.nodeName is edge-1"
    )  # fmt: skip


def test_pressure_is_of_nodes_that_are_here() -> None:
    marks = ("DiskPressure",)
    rows = [node("n1", marks=marks), node("n2", marks=marks), node("n3", "away", since=NOW - 99.0, marks=marks)]
    assert said(rows) == ["n3 is away", "n1 and n2 have DiskPressure"]


def test_pods_of_one_owner_that_fail_alike_are_one_finding() -> None:
    pods = [pod(f"web-{each}", "CrashLoopBackOff", "0/1", owner="Deployment web") for each in range(4)]
    (found,), _ = findings(Fleet([node("n1")], pods, NOW))
    assert (found.sentence, found.detail) == ("Deployment web: 4 pods do not run (CrashLoopBackOff)", "on n1")
    assert found.command == "cloudcore why pod shop/web-0"


def test_workloads_of_one_name_in_two_namespaces_are_two_findings() -> None:
    web = pod("web-1", "CrashLoopBackOff", "0/1", owner="Deployment web")
    pods = [web, msgspec.structs.replace(web, namespace="lab")]
    assert [each.pods for each in findings(Fleet([node("n1")], pods, NOW))[0]] == [("shop/web-1",), ("lab/web-1",)]


def test_pods_that_start_or_whose_node_is_away_are_not_failing() -> None:
    young = pod("new", "ContainerCreating", "0/1", created="1970-01-12T13:46:30Z")
    there = pod("gone", "CrashLoopBackOff", "0/1", node="n9")
    unbound = pod("late", "Pending", "0/1", node="")
    fresh = pod("fresh", "Pending", "0/1", node="", created="1970-01-12T13:45:00Z")
    never = pod("never", "CrashLoopBackOff", "0/1", node="n8")
    unaged = pod("unaged", "Pending", "0/1", node="", created="yesterday")
    rows = [node("n1"), node("n9", "away", since=NOW - 99.0), node("n8", "never")]
    assert said(rows, [young, there, unbound, fresh, never, unaged]) == [
        "n9 is away", "pod shop/late does not run (no node yet)", "n8 has never been connected",
    ]  # fmt: skip


def test_a_stopped_rollout_is_a_finding_where_no_pod_of_it_fails() -> None:
    stopped, lacking = Lack("shop", "Deployment web", 3, 0, "timed out"), Lack("shop", "Deployment web", 3, 1, "quota")
    failing = pod("web-1", "CrashLoopBackOff", "0/1", owner="Deployment web")
    for lack, pods, rules in (
        (stopped, [], ["pods-missing"]), (stopped, [failing], ["pods-failing"]),
        (lacking, [failing], ["pods-failing", "pods-missing"]),
    ):  # fmt: skip
        found, _ = findings(Fleet([node("n1")], pods, NOW, lacks=[lack]))
        assert [each.rule for each in found] == rules


def test_a_device_of_which_nothing_was_ever_heard_is_no_finding() -> None:
    """Whether a mapper serves it is known on its node only; a state that the node reports is another matter."""
    unheard = msgspec.structs.replace(overdue("hall"), is_heard=False, due=None)
    assert findings(Fleet([node("n1")], [], NOW, devices=[unheard])) == ([], 0)
    silent = msgspec.structs.replace(unheard, state="unknown")
    assert findings(Fleet([node("n1")], [], NOW, devices=[silent]))[1] == 1


def text(rows: list[NodeRow]) -> str:
    """Return the sentence without its links."""
    return "".join(part.text for part in fleet_sentence(rows))


def test_the_sentence_of_a_fleet() -> None:
    assert text([]) == "No node has joined yet."
    assert text([node("n1")]) == "The node is connected."
    assert text([node("n1"), node("n2")]) == "All 2 nodes are connected."
    rows = [node("n1"), node("n2", "behind"), node("n3", "away"), node("n4", "away"), node("n5", "never")]
    assert text(rows) == "2 of 5 nodes are connected; 2 are away, 1 is behind, 1 never connected."
    assert SentencePart("2 are away", "is:away") in fleet_sentence(rows)


def test_the_sentence_of_pods_leaves_nodes_that_are_away_apart() -> None:
    rows = [node("n1"), node("n2", "away")]
    assert pods_sentence([], rows) == "There are no pods."
    assert pods_sentence([pod("a"), pod("b", "Error", "0/1")], rows) == "1 of 2 pods run."
    assert pods_sentence([pod("b", node="n2")], rows) == (
        "1 pod is on nodes that are away, where their state is the last that was reported."
    )
    assert pods_sentence([pod("a"), pod("b", node="n2")], rows) == (
        "The pod runs; 1 more is on nodes that are away, where their state is the last that was reported."
    )


def test_gaps_of_a_link() -> None:
    sessions = [(NOW - 2 * DAY, NOW - 5000.0), (NOW - 4000.0, NOW - 3000.0), (NOW - 3000.0, 0.0)]
    assert gaps_of(sessions, NOW) == ((NOW - 5000.0, NOW - 4000.0),)
    assert gaps_of([(NOW - 100.0, NOW - 40.0)], NOW) == ((NOW - 40.0, 0.0),)
    assert gaps_of([(NOW - 3 * DAY, NOW - 2 * DAY)], NOW) == ((NOW - 2 * DAY, 0.0),)
    assert gaps_of([], NOW) == ()
    flicker = [(NOW - 1000.0 + 2 * each, NOW - 999.0 + 2 * each) for each in range(400)]
    assert len(gaps_of(flicker, NOW)) == 60
    ended = [(NOW - 9000.0 + 2 * each, NOW - 8999.0 + 2 * each) for each in range(400)]
    assert gaps_of(ended, NOW)[-1] == (NOW - 8201.0, 0.0), "the one that lasts"


def test_a_row_of_a_pod() -> None:
    owner = {"controller": True, "kind": "ReplicaSet", "name": "web-5d9f"}
    metadata = {
        "namespace": "shop", "name": "web-5d9f-x", "ownerReferences": [owner], "creationTimestamp": OLD,
        "labels": {"pod-template-hash": "5d9f"},
    }  # fmt: skip
    row = pod_row({"metadata": metadata, "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "web:1"}]},
                   "status": {"phase": "Pending"}})  # fmt: skip
    assert row == FleetPodRow(
        "shop", "web-5d9f-x", "n1", "Pending", "0/1", 0, "Deployment web", OLD, "web:1", is_troubled=True
    )


@pytest.mark.parametrize(
    ("left", "words"),
    [(-1.0, "has ended"), (0.0, "has ended"), (1.0, "ends in 1s"), (86_400.0, "ends in 1 day"), (172_801.0, "")],
)
def test_a_certificate_ends_within_days(left: float, words: str) -> None:
    assert certificate_words(NOW + left, NOW, days=2) == words
