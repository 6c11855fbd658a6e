"""The picture of a fleet: rows with versions, made of what the feeds report."""

import random
from typing import Any

import msgspec
import pytest

from modules.cloud.messages import LinkSession, NodeConnection
from modules.insight.fleet.devices import DeviceFacts, DevicePropertyRow
from modules.insight.fleet.jobs import JobCounts, JobRow
from modules.insight.fleet.lacks import Lack
from modules.insight.fleet.rows import NodeRow, pod_row
from modules.page.nodes import short_node
from modules.page.picture import Changes, FleetHead, Links, Picture
from modules.page.sight import Sight

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
        return _sent(self.changes(since))


def _sent(changes: Changes) -> dict[str, Any]:
    """Return the rows as a browser reads them, by name."""
    return {row["name"]: row for row in msgspec.json.decode(msgspec.json.encode(changes.set))}


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
    world.picture.put_nodes([short_node(node("n1")), short_node(node("n2", "Unknown"))])
    world.picture.put_pods([pod_row(pod("a", "n1")), pod_row(pod("b", "n1", "Pending", ready=False))])
    world.picture.put_links(links("n1", "n3"))
    world.picture.put_sessions([LinkSession("n2", "c9", "a", 900_000.0, 990_000.0, "no keepalive", "192.0.2.7", 5.0)])
    found = world.rows()
    assert {name: row["state"] for name, row in found.items()} == {"n1": "connected", "n2": "away", "n3": "behind"}
    assert (found["n1"]["ready"], found["n1"]["pods"]) == (1, 2)
    away = found["n2"]
    assert (away["since"], away["last_word"], away["address"]) == (990_000.0, "no keepalive", "192.0.2.7")
    assert (away["certificate_ends"], away["gaps"]) == (5.0, [[990_000.0, 0.0]])


def test_only_changed_rows_are_sent_again() -> None:
    world = World()
    world.picture.put_nodes([short_node(node("n1")), short_node(node("n2"))])
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
    world.picture.put_nodes([short_node(node("n1"))])
    for number in range(5):
        world.picture.put_links(links("n1", seconds=100.0 + 3.1 * number + 0.4 * (number % 2)))
        assert world.changes().version == 1
        assert world.changes(after=1.1).version == 1, "between two polls"


def test_a_node_that_has_acknowledged_all_is_shown_so() -> None:
    world = World()
    world.picture.put_nodes([short_node(node("n1"))])
    link = NodeConnection("n1", 100.0, 1.0, unacknowledged=2, oldest_seconds=5.0)
    for each in (link, msgspec.structs.replace(link, unacknowledged=0, oldest_seconds=0.0)):
        world.picture.put_links(Links({"n1": each}))
        shown = world.rows()["n1"].get("oldest", 0.0)
        assert (shown > 0) == (each.unacknowledged > 0)


def test_rows_are_made_once_a_second_at_most() -> None:
    world = World()
    world.picture.put_nodes([short_node(node("n1"))])
    first = world.changes()
    world.picture.put_nodes([short_node(node("n1")), short_node(node("n2"))])
    assert world.changes(first.version, after=0.5).version == first.version
    assert world.changes(first.version, after=0.6).version == first.version + 1


def test_without_a_change_nothing_is_computed_but_ages_now_and_then(monkeypatch: Any) -> None:
    world, made = World(), list[str]()
    world.picture.put_nodes([short_node(node(f"n{number}")) for number in range(3)])

    def row(_: Picture, name: str, __: float) -> NodeRow:
        made.append("row")
        return NodeRow(name, "connected")

    def head(*_: Any) -> FleetHead:
        made.append("head")
        return FleetHead([], "", [], 0, [], {})

    monkeypatch.setattr(Picture, "_row", row)
    monkeypatch.setattr(Picture, "_head_of", head)
    for _ in range(50):
        world.picture.put_links(Links())
        world.picture.put_pods([])
        world.changes(after=1.0)
    assert (made.count("row"), made.count("head")) == (3, 10)
    world.picture.change_node("MODIFIED", {**node("n1"), "spec": {"unschedulable": True}})
    world.changes(after=1.0)
    assert (made.count("row"), made.count("head")) == (4, 11), "a change is not late"


@pytest.mark.parametrize(("took", "pause"), [(0.01, 2.0), (0.001, 1.0), (9.0, 5.0), (-60.0, 1.0)])
def test_a_large_fleet_that_changes_all_the_time_is_computed_less_often(
    monkeypatch: Any, took: float, pause: float
) -> None:
    """As often as takes half a hundredth of the time, whatever the clock does meanwhile."""
    world, head = World(), Picture._head_of

    def slow(*given: Any) -> FleetHead:
        world.at += took
        return head(*given)

    monkeypatch.setattr(Picture, "_head_of", slow)
    world.picture.put_nodes([short_node(node("n1"))])
    version = world.changes().version
    began = world.at - took
    world.picture.put_nodes([short_node(node("n1")), short_node(node("n2"))])
    world.at = began
    assert not world.changes(version, after=pause - 0.1).set
    assert world.changes(version, after=0.2).set


def test_a_view_that_is_made_between_two_makings_of_rows_does_not_miss_the_change() -> None:
    world = World()
    world.picture.put_nodes([short_node(node("n1"))])
    world.changes()
    world.picture.put_nodes([short_node(node("n1")), short_node(node("n2"))])
    other = Sight(pods_in=frozenset())
    world.at += 0.5
    assert len(world.picture.changes(0, FEEDS, other).set) == 1, "the rows are half a second old"
    world.at += 1.0
    assert len(world.picture.changes(0, FEEDS, other).set) == 2


def test_an_answer_from_before_a_list_was_read_does_not_hide_it_for_a_second() -> None:
    world = World()
    world.changes()
    world.picture.put_nodes([short_node(node("n1"))])
    for name in FEEDS:
        world.picture.answered(name)
    first = world.changes(after=0.1)
    assert (first.is_read, len(first.set), len(world.picture.rows())) == (True, 1, 1)


def test_a_page_that_has_missed_too_much_gets_all_rows(monkeypatch: Any) -> None:
    monkeypatch.setattr("modules.page.picture._GONE", 3)
    world = World()
    for number in range(6):
        world.picture.put_nodes([short_node(node(f"n{number}"))])
        world.changes()
    assert [since for since in range(1, 7) if world.changes(since).is_full] == [1, 2]


def test_a_feed_without_an_answer_is_named_with_the_age_of_its_content() -> None:
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
    world.picture.asks("pods")
    assert world.changes(after=5.0).trouble == ""
    late = world.changes(after=6.0)
    assert (late.trouble, late.as_of) == ("no answer from the API server", 1_000_000.0)
    world.picture.answered("pods")
    assert world.changes().trouble == ""


def test_the_head_counts_the_nodes_that_need_somebody() -> None:
    world = World()
    world.picture.put_nodes([short_node(node("n1")), short_node(node("n2"))])
    world.picture.put_links(links("n1"))
    world.picture.put_sessions([LinkSession("n2", "c9", "a", 900_000.0, 990_000.0)])
    head = world.changes().head
    assert head is not None
    assert "".join(part.text for part in head.sentence) == "1 of 2 nodes is connected; 1 is away."
    assert [each.sentence for each in head.findings] == ["n2 is away"]
    assert [each.text for each in head.today] == ["n2 went away"]
    assert head.counts == {"connected": 1, "away": 1}


class Life:
    """Random changes of a small fleet, and what a picture was given last.

    Args:
        seed: of the changes.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311 - the same for each run
        self.world = World()
        self.nodes: dict[str, Any] = {}
        self.pods: dict[str, Any] = {}
        self.began: dict[str, float] = {}
        self.begins: list[str] = []
        self.sessions: list[LinkSession] = []
        self.elsewhere, self.refused, self.are_known = dict[str, str](), dict[str, str](), True
        self.unacknowledged = dict[str, int]()
        self.devices, self.lacks, self.jobs = list[DeviceFacts](), list[Lack](), list[JobRow]()

    def step(self) -> None:
        """Change something, as a feed does."""
        name, picture = f"n{self.random.randrange(5)}", self.world.picture
        match self.random.randrange(13):
            case 0:
                self.nodes[name] = {**node(name), "spec": {"unschedulable": self.random.random() < 0.5}}
                picture.change_node("MODIFIED", self.nodes[name])
            case 1 if name in self.nodes:
                picture.change_node("DELETED", self.nodes.pop(name))
            case 2:
                made = pod(f"p{self.random.randrange(6)}", name, ready=self.random.random() < 0.5)
                self.pods[made["metadata"]["name"]] = made
                picture.change_pod("MODIFIED", made)
            case 3 if self.pods:
                picture.change_pod("DELETED", self.pods.pop(self.random.choice(list(self.pods))))
            case 4:
                self.began[name] = 999_000.0 + 10.0 * len(self.begins)
                self.begins.append(name)
            case 5:
                self.began.pop(name, None)
            case 6:
                self.sessions.insert(0, LinkSession(name, "c", "", self.world.at - 900.0, self.world.at - 5.0, "why"))
                picture.put_sessions(self.sessions)
            case 7:
                self.give_all(picture)
            case other:
                self.change_links_or_others(other, name)
        picture.put_links(self.links())

    def change_links_or_others(self, number: int, name: str) -> None:
        """Change what is not of Nodes, pods and connections."""
        picture = self.world.picture
        match number:
            case 8:
                for known, word in ((self.elsewhere, "other cloudcore"), (self.refused, "revoked")):
                    if self.random.random() < 0.5:
                        known.pop(name, None)
                    else:
                        known[name] = f"{word} {self.random.random():.1f}"
            case 9:
                self.are_known = not self.are_known
            case 10:
                self.sessions = [each for each in self.sessions if each.node != name]
                picture.put_sessions(self.sessions)
            case 11:
                self.change_others(name)
                picture.put_devices(self.devices)
                picture.put_lacks(self.lacks)
                picture.put_jobs(self.jobs)
            case 12:
                self.unacknowledged[name] = self.random.randrange(3)

    def change_others(self, name: str) -> None:
        """Change one of the devices, the workloads that lack pods, and the jobs, or end it."""
        due, change = DevicePropertyRow("t", reported_at=1.0, due=2.0), self.random.randrange(6)
        device = DeviceFacts("shop", name, name, "m", "", "", 1, 0, due, due, 1.0, is_heard=True, mapper="its mapper")
        counts, changing = JobCounts(nodes=2, waiting=1, away=1), (name,) if change == 4 else ()
        job = JobRow("NodeUpgradeJob", name, "", "Failure", "why", self.world.at, counts, changing=changing)
        self.devices = [[device], []][change] if change < 2 else self.devices
        self.lacks = [[Lack("shop", f"Job {name}", 3, 2, "why")], []][change - 2] if 1 < change < 4 else self.lacks
        self.jobs = [[job], []][change - 4] if change > 3 else self.jobs

    def links(self) -> Links:
        """Return the connections; the node n4 is silent for minutes."""
        found = {name: self.world.at - began for name, began in self.began.items()}
        silent = {name: self.world.at % 200 if name == "n4" else 1.0 for name in found}
        return Links(
            {
                name: NodeConnection(name, found[name], silent[name], connection=f"{name}/{self.began[name]}",
                    unacknowledged=self.unacknowledged.get(name, 0), oldest_seconds=found[name],)
                for name in found
            },
            dict(self.elsewhere), dict(self.refused), self.are_known,
        )  # fmt: skip

    def give_all(self, picture: Picture) -> None:
        """Give a picture everything, as a list does."""
        picture.put_nodes([short_node(each) for each in self.nodes.values()])
        picture.put_pods([pod_row(each) for each in self.pods.values()])
        picture.put_sessions(self.sessions)
        picture.put_devices(self.devices)
        picture.put_lacks(self.lacks)
        picture.put_jobs(self.jobs)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("sight", [Sight(), Sight(pods_in=frozenset({"other"})), Sight(has_nodes=False)])
def test_a_page_that_follows_the_changes_equals_a_new_one(
    monkeypatch: pytest.MonkeyPatch, seed: int, sight: Sight
) -> None:
    """Rows that are made again only when they change, and sent only then, are those of all facts."""
    monkeypatch.setattr("modules.page.picture._GONE", 2)  # a page that has missed more gets all rows
    life, rows, version, view = Life(seed), dict[str, Any](), 0, 0
    for _ in range(60):
        life.step()
        other = Picture(lambda: life.world.at)
        life.give_all(other)
        other.put_links(life.links())
        passed = life.random.choice((0.0, 1.0, 1.0, 5.0, 5.0, 12.0))
        life.world.at += passed
        if passed < 5.0 and life.random.random() < 0.5:  # this page does not ask, and another one does
            life.world.picture.changes(0, FEEDS, sight)
            continue
        changes = life.world.picture.changes(version, FEEDS, sight, view)
        version, view = changes.version, changes.view
        rows = {} if changes.is_full else {name: row for name, row in rows.items() if name not in changes.gone}
        rows |= _sent(changes)
        if passed >= 5.0:  # ages may be older for a moment
            whole = other.changes(0, FEEDS, sight)
            assert rows == _sent(whole)
            assert life.world.picture.changes(0, FEEDS, sight).head == whole.head


def test_what_is_reported_beside_nodes_and_pods_is_shown_within_a_second_to_who_may_see_it() -> None:
    due, counts = DevicePropertyRow("t", reported_at=1.0, due=2.0), JobCounts(nodes=2, waiting=2, away=1)
    world = World()
    world.picture.put_nodes([short_node(node("n1"))])
    world.picture.put_links(links("n1"))
    lack, job = Lack("shop", "Job web", 3, 2, "why"), JobRow("K", "up", "", "Failure", "", world.at, counts)
    device = DeviceFacts("shop", "hall", "n1", "m", "", "", 1, 0, due, due, 1.0, is_heard=True, mapper="m")
    reports: list[tuple[Any, Any, str]] = [
        (world.picture.put_devices, device, "devices-overdue"),
        (world.picture.put_lacks, lack, "pods-missing"),
        (world.picture.put_jobs, job, "job-stopped"),
    ]
    for put, found, rule in reports:
        version = world.changes().version
        put([found])
        head = world.changes(version, after=1.1).head
        assert head is not None
        assert rule in {each.rule for each in head.findings}

    def told(sight: Sight) -> list[str]:
        head = world.picture.changes(0, FEEDS, sight).head
        return [f"{each.rule} {each.detail}" for each in head.findings] if head is not None else []

    assert "job-stopped 2 nodes: 2 waiting (1 away)" in told(Sight())
    assert "job-stopped 2 nodes: 2 waiting" in told(Sight(has_nodes=False))
    for sight, rule in (
        (Sight(has_jobs=False), "job-stopped"), (Sight(has_workloads=False), "pods-missing"),
        (Sight(pods_in=frozenset({"other"})), "pods-missing"), (Sight(devices_in=frozenset()), "devices-overdue"),
    ):  # fmt: skip
        assert not [each for each in told(sight) if each.startswith(rule)], rule


def test_a_node_that_a_job_starts_again_has_that_for_its_reason_to_who_may_see_jobs() -> None:
    """As long as it is not connected."""
    world = World()
    world.picture.put_nodes([short_node(node("n1")), short_node(node("n2"))])
    world.picture.put_links(links("n1"))
    world.picture.put_sessions([LinkSession("n2", "c9", "a", 900_000.0, 990_000.0)])
    changing = ("n1", "n2")
    world.picture.put_jobs([JobRow("NodeUpgradeJob", "up", "", "InProgress", "", 0.0, JobCounts(), changing=changing)])
    reasons = {name: row.get("reason") for name, row in _sent(world.changes()).items()}
    assert reasons == {"n1": None, "n2": "it is being upgraded by NodeUpgradeJob up"}
    hidden = world.picture.changes(0, FEEDS, Sight(has_jobs=False))
    assert not any("upgraded" in row.get("reason", "") for row in _sent(hidden).values())


def test_a_user_whose_rights_have_changed_gets_all_rows() -> None:
    world = World()
    world.picture.put_nodes([short_node(node("n1")), short_node(node("n2"))])
    first = world.changes()
    world.picture.change_node("DELETED", node("n2"))
    other = world.picture.changes(first.version, FEEDS, Sight(pods_in=frozenset()), first.view)
    assert (other.is_full, len(other.set), other.view != first.view) == (True, 2, True)


def test_long_texts_of_a_node_are_cut() -> None:
    world, long = World(), "x" * 1_000_000
    made = node("n1")
    conditions = [{"type": "Ready", "status": "False", "reason": long}, {"type": f"{long}Pressure", "status": "True"}]
    made["status"] = {"conditions": conditions, "nodeInfo": {"kubeletVersion": long, "architecture": long}}
    waits = pod("a", "n1", "Pending", ready=False)
    waits["status"]["containerStatuses"][0]["state"]["waiting"]["reason"] = long
    world.picture.put_nodes([short_node(made)])
    world.picture.put_pods([pod_row(waits)])
    world.picture.put_links(links("n1"))
    assert len(msgspec.json.encode(world.changes())) < 10_000
    assert len(msgspec.json.encode(world.picture.pods())) < 10_000


def sizes(picture: Picture) -> dict[str, int]:
    """Return how many entries each of a picture's containers has."""
    return {name: len(held) for name, held in vars(picture).items() if hasattr(held, "__len__")}


@pytest.mark.parametrize("by", ["watch", "list"])
def test_nodes_and_pods_that_are_deleted_are_forgotten(by: str) -> None:
    """A thousand names, again and again others, leave nothing behind but some texts."""
    world, number = World(), 1000
    picture = world.picture
    picture.put_nodes([short_node(node("stays"))])
    picture.put_pods([pod_row(pod("stays", "stays"))])
    picture.put_links(links("stays"))
    world.changes(after=20.0)
    before = sizes(picture)
    for turn in range(4):
        nodes = [node(f"n{turn}-{each}") for each in range(number)]
        pods = [pod(f"p{turn}-{each}", f"n{turn}-{each}", ready=each % 2 > 0) for each in range(number)]
        for each in nodes:
            picture.change_node("ADDED", each)
        for each in pods:
            picture.change_pod("ADDED", each)
        picture.put_links(links("stays", *(each["metadata"]["name"] for each in nodes)))
        assert len(world.changes(after=20.0).set) == number + 1
        if by == "list":
            picture.put_nodes([short_node(node("stays"))])
            picture.put_pods([pod_row(pod("stays", "stays"))])
        else:
            for each in pods:
                picture.change_pod("DELETED", each)
            for each in nodes:
                picture.change_node("DELETED", each)
        picture.put_links(links("stays"))
        assert len(world.changes(after=20.0).set) == 1
    after = sizes(picture)
    assert after.pop("_words") < 4 * number
    assert picture._most_words < 12 * number, "the bound does not grow with what has gone"
    assert after == {name: size for name, size in before.items() if name != "_words"}
