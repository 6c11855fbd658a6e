"""The picture of a fleet: what the feeds have reported, and the rows that are made of it."""

import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from modules.cloud.messages import LinkSession, NodeConnection
from modules.tools.fleet.devices import DeviceFacts
from modules.tools.fleet.facts import facts_of
from modules.tools.fleet.findings import Fleet, FleetFinding, findings
from modules.tools.fleet.rows import FleetPodRow, LinkRow, NodeRow, node_row, pod_row
from modules.tools.fleet.sentences import SentencePart, fleet_sentence, pods_sentence
from modules.tools.fleet.states import AWAY, BEHIND, CONNECTED, NEVER, LinkFacts, state_of
from modules.tools.fleet.today import Happening, today
from modules.tools.printing.ages import seconds_of
from modules.tools.printing.fields import JsonObject, text_at

_RANK: Final = {AWAY: 0, BEHIND: 1, NEVER: 2, CONNECTED: 3}
_GONE: Final = 4096
"""Rows that have gone and are remembered; a page that has not asked for longer gets all rows."""
_PERIOD: Final = 1.0
"""Least seconds between two computations of the rows."""
_NEAR: Final = 3.0
"""Largest difference, in seconds, of two equal moments."""
_LATE: Final = 10.0
"""Seconds without an answer of the server until a page shows it."""


class Links(msgspec.Struct, frozen=True):
    """What cloudcore knows of nodes' links."""

    connections: Mapping[str, NodeConnection] = {}
    """To the cloudcore that was asked, by node."""
    elsewhere: Mapping[str, str] = {}
    """By node, another cloudcore that is alive and has it."""
    refused: Mapping[str, str] = {}
    """By node, why its connection was refused."""


class FleetHead(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a page about the fleet has above its table."""

    sentence: Sequence[SentencePart]
    pods: str
    findings: Sequence[FleetFinding]
    more: int
    """Findings beyond these."""
    today: Sequence[Happening]
    counts: Mapping[str, int]
    """Nodes by state."""
    today_more: int = 0
    """Happenings beyond these."""


class Changes(msgspec.Struct, frozen=True, omit_defaults=True):
    """The changes of the picture since a version of it."""

    version: int
    now: float
    """Seconds since 1970 of this server; a browser's clock is not believed."""
    is_read: bool
    """Whether everything has been read once."""
    trouble: str = ""
    """Why nothing new comes."""
    as_of: float = 0.0
    """When the last answer came, if that is long ago."""
    is_full: bool = False
    """Whether `set` has all rows."""
    set: Sequence[msgspec.Raw] = ()
    gone: Sequence[str] = ()
    head: FleetHead | None = None
    """None if it has not changed."""


class Picture:
    """The nodes, pods and links of a fleet, and rows with versions. Thread-safe.

    Args:
        now: returns the seconds since 1970.
        program: the command that findings name.
    """

    def __init__(self, now: Callable[[], float], program: str = "cloudcore") -> None:
        self._now = now
        self._program = program
        self._lock = threading.Lock()
        self._nodes: dict[str, JsonObject] = {}
        self._pods: dict[str, FleetPodRow] = {}
        self._devices: Sequence[DeviceFacts] = ()
        self._links = Links()
        self._links_at = 0.0
        """When they were read: their ages count from then."""
        self._moments: dict[tuple[str, str], float] = {}
        """Moments that were computed from ages, by node and what they are: an answer that takes longer is no change."""
        self._sessions: dict[str, list[LinkSession]] = {}
        self._answered: dict[str, float] = {}
        """When each feed has got its last answer."""
        self._troubles: dict[str, str] = {}
        self._rows: dict[str, tuple[int, bytes]] = {}
        self._made: list[NodeRow] = []
        self._gone: deque[tuple[int, str]] = deque(maxlen=_GONE)
        self._forgotten = 0
        """The last version with forgotten removals of rows."""
        self._version = 0
        self._head: tuple[int, bytes, FleetHead] | None = None
        self._made_at = 0.0

    # What feeds report

    def put_nodes(self, nodes: Iterable[JsonObject]) -> None:
        """Take over all Nodes."""
        with self._lock:
            self._nodes = {text_at(each, "metadata.name"): each for each in nodes}

    def put_pods(self, pods: Iterable[JsonObject]) -> None:
        """Take over all pods."""
        rows = [pod_row(each) for each in pods]
        with self._lock:
            self._pods = {each.key: each for each in rows}

    def change_node(self, change: str, node: JsonObject) -> None:
        """Take over a change that a watch reports."""
        name = text_at(node, "metadata.name")
        with self._lock:
            if change == "DELETED":
                self._nodes.pop(name, None)
            else:
                self._nodes[name] = node

    def change_pod(self, change: str, pod: JsonObject) -> None:
        """Take over a change that a watch reports."""
        row = pod_row(pod)
        with self._lock:
            if change == "DELETED":
                self._pods.pop(row.key, None)
            else:
                self._pods[row.key] = row

    def put_links(self, links: Links) -> None:
        """Take over the present connections."""
        with self._lock:
            self._links, self._links_at = links, self._now()

    def put_sessions(self, sessions: Iterable[LinkSession]) -> None:
        """Take over the link journal of the last 24 hours, and the newest connection of each node."""
        by_node: defaultdict[str, list[LinkSession]] = defaultdict(list)
        for each in sessions:
            by_node[each.node].append(each)
        with self._lock:
            self._sessions = dict(by_node)

    def put_devices(self, facts: Sequence[DeviceFacts]) -> None:
        """Take over the facts of all devices."""
        with self._lock:
            self._devices = facts

    def answered(self, feed: str, trouble: str = "") -> None:
        """Note that a feed has got an answer, or why it has got none."""
        with self._lock:
            if trouble:
                self._troubles[feed] = trouble
            else:
                self._answered[feed] = self._now()
                self._troubles.pop(feed, None)

    # What pages ask

    def is_answered(self, feeds: Iterable[str]) -> bool:
        """Return whether these feeds have got an answer, or any of them a trouble."""
        with self._lock:
            return bool(self._troubles) or self._answered.keys() >= set(feeds)

    def changes(self, since: int, feeds: Iterable[str]) -> Changes:
        """Return the changes since a version, 0 for everything; it is read when these feeds have got an answer."""
        with self._lock:
            now = self._now()
            if now - self._made_at >= _PERIOD or now < self._made_at:
                self._make(now)
            is_full = since == 0 or since > self._version or since < self._forgotten
            head = self._head[2] if self._head is not None and (is_full or self._head[0] > since) else None
            trouble = next(iter(self._troubles.values()), "")
            oldest = min((self._answered.get(each, 0.0) for each in self._troubles), default=0.0)
            return Changes(
                version=self._version,
                now=round(now, 3),
                is_read=self._answered.keys() >= set(feeds),
                trouble=trouble,
                as_of=round(oldest, 3) if oldest and now - oldest > _LATE else 0.0,
                is_full=is_full,
                set=[msgspec.Raw(row) for at, row in self._rows.values() if is_full or at > since],
                gone=() if is_full else [name for at, name in self._gone if at > since],
                head=head,
            )

    def rows(self) -> list[NodeRow]:
        """Return the rows of nodes as they were made last."""
        with self._lock:
            if not self._made:
                self._make(self._now())
            return list(self._made)

    def pods(self) -> list[FleetPodRow]:
        """Return the rows of all pods."""
        with self._lock:
            return list(self._pods.values())

    def node(self, name: str) -> JsonObject | None:
        """Return a Node."""
        with self._lock:
            return self._nodes.get(name)

    def _make(self, now: float) -> None:
        self._made_at = now
        pods: defaultdict[str, list[FleetPodRow]] = defaultdict(list)
        for pod in self._pods.values():
            pods[pod.node].append(pod)
        names = self._nodes.keys() | self._links.connections.keys() | self._links.refused.keys()
        self._made = [self._row(name, pods.get(name, []), now) for name in names]
        self._made.sort(key=lambda row: (_RANK[row.state], row.ready - row.pods, row.name))
        encoded = {row.name: msgspec.json.encode(row) for row in self._made}
        changed = [name for name, row in encoded.items() if self._rows.get(name, (0, b""))[1] != row]
        gone = [name for name in self._rows if name not in encoded]
        head = self._head_of(now)
        head_bytes = msgspec.json.encode(head)
        if changed or gone or self._head is None or self._head[1] != head_bytes:
            self._version += 1
        for name in changed:
            self._rows[name] = self._version, encoded[name]
        for name in gone:
            del self._rows[name]
            self._moments.pop((name, "since"), None)
            self._moments.pop((name, "oldest"), None)
            if len(self._gone) == self._gone.maxlen:
                self._forgotten = self._gone[0][0]
            self._gone.append((self._version, name))
        if self._head is None or self._head[1] != head_bytes:
            self._head = self._version, head_bytes, head

    def _head_of(self, now: float) -> FleetHead:
        pods = list(self._pods.values())
        found, number = findings(Fleet(self._made, pods, now, self._program, self._devices))
        joined = {name: seconds_of(text_at(each, "metadata.creationTimestamp")) for name, each in self._nodes.items()}
        sessions = {node: [(each.began, each.ended) for each in found] for node, found in self._sessions.items()}
        counts: defaultdict[str, int] = defaultdict(int)
        for row in self._made:
            counts[row.state] += 1
        happened, earlier = today(sessions, {name: at for name, at in joined.items() if at is not None}, now)
        return FleetHead(
            fleet_sentence(self._made), pods_sentence(pods, self._made), found, number - len(found), happened,
            dict(counts), earlier,
        )  # fmt: skip

    def _row(self, name: str, pods: Sequence[FleetPodRow], now: float) -> NodeRow:
        node, sessions = self._nodes.get(name), self._sessions.get(name, [])
        newest = sessions[0] if sessions else None
        connection, holder = self._links.connections.get(name), self._links.elsewhere.get(name, "")
        is_lasting, link = connection is not None or bool(holder), None
        row = LinkRow(
            certificate_ends=newest.certificate_ends if newest else 0.0,
            address=newest.address if newest else "",
            cloudcore=newest.cloudcore if newest else "",
            last_word=self._links.refused.get(name, "") or (newest.reason if newest else ""),
            sessions=[(each.began, each.ended or (0.0 if is_lasting else each.seen)) for each in sessions],
        )
        if connection is not None:
            oldest = self._moment(name, "oldest", connection.oldest_seconds) if connection.unacknowledged else 0.0
            link = LinkFacts(
                connection.connected_seconds, connection.keepalive_seconds,
                connection.oldest_seconds if connection.unacknowledged else 0.0, connection.is_behind,
            )  # fmt: skip
            row = msgspec.structs.replace(
                row,
                waiting=connection.waiting + connection.unacknowledged,
                oldest=oldest,
                certificate_ends=connection.certificate_ends,
                address=connection.address,
                last_word=connection.last_error,
            )
        facts = facts_of(node, link=link, holder=holder, newest=newest)
        state = state_of(facts, now)
        if connection is not None:
            since = self._moment(name, "since", connection.connected_seconds)
            state = msgspec.structs.replace(state, since=since)
        return node_row(name, node, state, pods, row, now)

    def _moment(self, name: str, what: str, seconds: float) -> float:
        """Return the moment that was so many seconds before the links were read, the one known before if it is near."""
        found, known = float(round(self._links_at - seconds)), self._moments.get((name, what), 0.0)
        if abs(found - known) < _NEAR:
            return known
        self._moments[name, what] = found
        return found
