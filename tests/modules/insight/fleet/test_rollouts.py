"""Which workloads do not run everywhere: four parts, reasons, and what the failing nodes share."""

from modules.insight.fleet.rollouts import Rollouts, rollouts
from modules.insight.fleet.rows import FleetPodRow, NodeRow

NODES = [
    NodeRow("k1", "connected", zone="kiel"),
    NodeRow("k2", "behind", zone="kiel"),
    NodeRow("h1", "connected", zone="hamburg"),
    NodeRow("h2", "away", zone="hamburg"),
    NodeRow("h3", "never", zone="hamburg"),
]


def pod(node: str, status: str = "Running", owner: str = "DaemonSet web", **fields: object) -> FleetPodRow:
    """Return a row."""
    values = {"image": "web:1", "is_troubled": status not in ("Running", "Completed"), **fields}
    return FleetPodRow("shop", f"web-{node}", node, status, "1/1", owner=owner, **values)  # type: ignore[arg-type]


def found(*pods: FleetPodRow) -> Rollouts:
    return rollouts(pods, NODES)


def test_a_fleet_without_workloads() -> None:
    assert found(pod("k1", owner="")).sentence == "There are no workloads: no pod has a controller."


def test_all_run() -> None:
    assert found(pod("k1"), pod("k2")).sentence == "The workload runs."
    assert found(pod("k1"), pod("k2", owner="Job once", status="Completed")).sentence == "All 2 workloads run."


def test_no_news_is_no_failure() -> None:
    [row] = (answer := found(pod("k1"), pod("h2", "CrashLoopBackOff"), pod("h3", "Pending"))).rows
    assert (row.run, row.under_way, row.fail, row.unheard, row.failing) == (1, 0, 0, 2, [])
    assert answer.sentence == "The workload has pods on nodes that are away."


def test_starting_pods_are_under_way() -> None:
    starting = [pod("k1", status) for status in ("ContainerCreating", "Pending", "Init:0/1")]
    not_ready = pod("k2", is_troubled=True)
    [row] = (answer := found(*starting, not_ready)).rows
    assert (row.run, row.under_way, row.fail) == (0, 4, 0)
    assert answer.sentence == "The workload is under way."


def test_failing_pods_are_grouped_with_what_their_nodes_share() -> None:
    pods = [pod("k1", "ImagePullBackOff", image="web:2"), pod("k2", "ImagePullBackOff"), pod("h1", "Error")]
    [row] = (answer := found(*pods)).rows
    assert [(each.status, each.shared, len(each.pods)) for each in row.failing] == [
        ("ImagePullBackOff", "of kiel", 2),
        ("Error", "", 1),
    ]
    assert list(row.images) == ["web:1", "web:2"]
    assert answer.sentence == "The workload fails on some node."


def test_a_property_of_the_whole_fleet_is_no_reason() -> None:
    nodes = [NodeRow(name, "connected", zone="kiel") for name in ("k1", "k2", "k3")]
    [row] = rollouts([pod("k1", "Error"), pod("k2", "Error"), pod("k3")], nodes).rows
    assert [each.shared for each in row.failing] == [""]


def test_failing_pods_come_first_and_namespaces_are_apart() -> None:
    other = FleetPodRow("other", "web-1", "k1", "Error", "0/1", owner="DaemonSet web", is_troubled=True)
    rows = found(pod("k1"), pod("k1", "Pending", owner="Job b"), other, pod("k2", "Error", "Job c")).rows
    assert [(row.namespace, row.owner) for row in rows] == [
        ("other", "DaemonSet web"), ("shop", "Job c"), ("shop", "Job b"), ("shop", "DaemonSet web"),
    ]  # fmt: skip


def test_the_answer_is_bounded() -> None:
    many = [pod(f"n{number}", "Error") for number in range(100)]
    [row] = found(*many).rows
    assert [(len(each.pods), each.more) for each in row.failing] == [(20, 80)]
    [row] = found(*many, pod("k1", "ImagePullBackOff"), pod("k2")).rows
    assert [(each.status, len(each.pods), each.more) for each in row.failing] == [
        ("Error", 20, 80), ("ImagePullBackOff", 1, 0),
    ]  # fmt: skip
    assert len(found(*(pod("k1", image=f"web:{number}") for number in range(30))).rows[0].images) == 8
    answer = found(*(pod("k1", owner=f"Job {number}") for number in range(300)))
    assert (len(answer.rows), answer.more) == (200, 100)
