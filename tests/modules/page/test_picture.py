"""The picture of a fleet: rows with versions, made of what the feeds report."""

from typing import Any

import msgspec

from modules.cloud.messages import LinkSession, NodeConnection
from modules.page.picture import Changes, Links, Picture

FEEDS = ("nodes", "pods", "links")


class World:
    """A picture with a clock of its own."""

    def __init__(self) -> None:
        self.at = 1_000_000.0
        self.picture = Picture(lambda: self.at)

    def changes(self, since: int = 0, after: float = 2.0) -> Changes:
        """Return the changes, some time later."""
        self.at += after
        return self.picture.changes(since, FEEDS)

    def rows(self, since: int = 0) -> dict[str, Any]:
        """Return the rows that have changed, by name."""
        return {row["name"]: row for row in map(msgspec.json.decode, self.changes(since).set)}


def node(name: str, ready: str = "True") -> dict[str, Any]:
    """Return a Node."""
    return {"metadata": {"name": name}, "status": {"conditions": [{"type": "Ready", "status": ready}]}}


def pod(name: str, on: str, phase: str = "Running", *, ready: bool = True) -> dict[str, Any]:
    """Return a pod of one container."""
    state = {"running": {}} if phase == "Running" else {"waiting": {"reason": "ErrImagePull"}}
    status = {"phase": phase, "containerStatuses": [{"name": "c", "ready": ready, "state": state}]}
    return {"metadata": {"namespace": "shop", "name": name}, "spec": {"nodeName": on, "containers": [{"name": "c"}]},
            "status": status}  # fmt: skip


def links(*nodes: str, seconds: float = 100.0) -> Links:
    """Return connections."""
    return Links({name: NodeConnection(name, seconds, 1.0, connection=f"c-{name}") for name in nodes})


def test_rows_join_nodes_pods_and_links() -> None:
    world = World()
    world.picture.put_nodes([node("n1"), node("n2", "Unknown")])
    world.picture.put_pods([pod("a", "n1"), pod("b", "n1", "Pending", ready=False)])
    world.picture.put_links(links("n1", "n3"))
    world.picture.put_sessions([LinkSession("n2", "c9", "a", 900_000.0, 990_000.0, "no keepalive", "192.0.2.7", 5.0)])
    found = world.rows()
    assert {name: row["state"] for name, row in found.items()} == {"n1": "connected", "n2": "away", "n3": "connected"}
    assert (found["n1"]["ready"], found["n1"]["pods"]) == (1, 2)
    away = found["n2"]
    assert (away["since"], away["last_word"], away["address"]) == (990_000.0, "no keepalive", "192.0.2.7")
    assert (away["certificate_ends"], away["gaps"]) == (5.0, [[990_000.0, 0.0]])


def test_only_what_has_changed_is_sent_again() -> None:
    world = World()
    world.picture.put_nodes([node("n1"), node("n2")])
    first = world.changes()
    assert (first.is_full, len(first.set), first.head is not None) == (True, 2, True)
    quiet = world.changes(first.version)
    assert (quiet.version, quiet.is_full, quiet.set, quiet.head) == (first.version, False, [], None)
    world.picture.change_node("MODIFIED", {**node("n1"), "spec": {"unschedulable": True}})
    assert list(world.rows(first.version)) == ["n1"]
    world.picture.change_node("DELETED", node("n2"))
    gone = world.changes(first.version + 1)
    assert (list(gone.gone), gone.head is not None) == (["n2"], True)
    assert world.changes(10_000).is_full, "a version of an earlier server"


def test_nothing_changes_while_a_link_only_grows_older() -> None:
    world = World()
    world.picture.put_nodes([node("n1")])
    for number in range(5):
        world.picture.put_links(links("n1", seconds=100.0 + 3.1 * number + 0.4 * (number % 2)))
        assert world.changes().version == 1
        assert world.changes(after=1.1).version == 1, "between two polls"


def test_rows_are_made_once_a_second_at_most() -> None:
    world = World()
    world.picture.put_nodes([node("n1")])
    first = world.changes()
    world.picture.put_nodes([node("n1"), node("n2")])
    assert world.changes(first.version, after=0.5).version == first.version
    assert world.changes(first.version, after=0.6).version == first.version + 1


def test_a_page_that_has_missed_too_much_gets_all_rows(monkeypatch: Any) -> None:
    monkeypatch.setattr("modules.page.picture._GONE", 3)
    world = World()
    for number in range(6):
        world.picture.put_nodes([node(f"n{number}")])
        world.changes()
    assert world.changes(1).is_full
    assert not world.changes(5).is_full


def test_a_feed_without_an_answer_is_named_with_the_age_of_what_is_shown() -> None:
    world = World()
    for name in ("nodes", "pods"):
        world.picture.answered(name)
    assert not world.changes().is_read
    world.picture.answered("links")
    assert world.changes().is_read
    world.picture.answered("nodes", "cannot reach the server")
    assert (world.changes().trouble, world.changes().as_of) == ("cannot reach the server", 0.0)
    world.picture.answered("devices")
    late = world.changes(after=60.0)
    assert late.as_of == 1_000_000.0
    world.picture.answered("nodes")
    assert world.changes().trouble == ""


def test_the_head_says_what_needs_somebody() -> None:
    world = World()
    world.picture.put_nodes([node("n1"), node("n2")])
    world.picture.put_links(links("n1"))
    world.picture.put_sessions([LinkSession("n2", "c9", "a", 900_000.0, 990_000.0)])
    head = world.changes().head
    assert head is not None
    assert "".join(part.text for part in head.sentence) == "1 of 2 nodes is connected; 1 is away."
    assert [each.sentence for each in head.findings] == ["n2 is away"]
    assert [each.text for each in head.today] == ["n2 went away"]
    assert head.counts == {"connected": 1, "away": 1}


def test_what_a_node_says_at_length_is_cut() -> None:
    world, long = World(), "x" * 1_000_000
    made = node("n1")
    conditions = [{"type": "Ready", "status": "False", "reason": long}, {"type": f"{long}Pressure", "status": "True"}]
    made["status"] = {"conditions": conditions, "nodeInfo": {"kubeletVersion": long, "architecture": long}}
    waits = pod("a", "n1", "Pending", ready=False)
    waits["status"]["containerStatuses"][0]["state"]["waiting"]["reason"] = long
    world.picture.put_nodes([made])
    world.picture.put_pods([waits])
    world.picture.put_links(links("n1"))
    assert len(msgspec.json.encode(world.changes())) < 10_000
    assert len(msgspec.json.encode(world.picture.pods())) < 10_000
