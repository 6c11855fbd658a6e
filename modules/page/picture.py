"""The picture of a fleet: what the feeds have reported, and the rows that are made of it."""

import threading
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from modules.cloud.messages import LinkSession, NodeConnection
from modules.page.sight import Sight
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
_ALL: Final = Sight()
_MOST_VIEWS: Final = 16
"""Views that are kept; with more the one that was not asked for the longest is made again."""


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
    """Empty for a user who may not see nodes."""
    pods: str
    """Empty for a user who may not see pods."""
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
    view: int = 0
    """Whose versions these are: with another one, all rows are new."""


class _View:
    """The rows of the nodes as users with equal rights see them, with versions.

    Args:
        number: another one for each view.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.made: list[NodeRow] = []
        self.made_at = float("-inf")
        self.version = 0
        self._rows: dict[str, tuple[int, bytes]] = {}
        self._gone: deque[tuple[int, str]] = deque(maxlen=_GONE)
        self._forgotten = 0
        """The last version with forgotten removals of rows."""
        self._head: tuple[int, bytes, FleetHead] | None = None

    def take(self, made: list[NodeRow], head: FleetHead, now: float) -> None:
        """Take over new rows; the version grows if any differs."""
        self.made, self.made_at = made, now
        encoded = {row.name: msgspec.json.encode(row) for row in made}
        changed = [name for name, row in encoded.items() if self._rows.get(name, (0, b""))[1] != row]
        gone = [name for name in self._rows if name not in encoded]
        head_bytes = msgspec.json.encode(head)
        is_other = self._head is None or self._head[1] != head_bytes
        if changed or gone or is_other:
            self.version += 1
        for name in changed:
            self._rows[name] = self.version, encoded[name]
        for name in gone:
            del self._rows[name]
            if len(self._gone) == self._gone.maxlen:
                self._forgotten = self._gone[0][0]
            self._gone.append((self.version, name))
        if is_other:
            self._head = self.version, head_bytes, head

    def is_full_since(self, since: int) -> bool:
        """Return whether whoever knows a version needs all rows."""
        return since == 0 or since > self.version or since < self._forgotten

    def since(self, version: int, changes: Changes) -> Changes:
        """Return the changes since a version, added to what they say otherwise."""
        is_full, head = self.is_full_since(version), self._head
        return msgspec.structs.replace(
            changes,
            version=self.version,
            view=self.number,
            is_full=is_full,
            set=[msgspec.Raw(row) for at, row in self._rows.values() if is_full or at > version],
            gone=() if is_full else [name for at, name in self._gone if at > version],
            head=head[2] if head is not None and (is_full or head[0] > version) else None,
        )


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
        self._made: list[NodeRow] = []
        self._made_at = float("-inf")
        self._views: dict[Sight, _View] = {}
        self._views_made = 0

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

    def changes(self, since: int, feeds: Iterable[str], sight: Sight = _ALL, view: int = 0) -> Changes:
        """Return the changes of a view since a version.

        Args:
            since: the version, 0 for everything.
            feeds: everything is read when these have got an answer.
            sight: what the user may see.
            view: whose version it is; 0 if that is not known.
        """
        with self._lock:
            now = self._now()
            found = self._view(sight, now)
            trouble = next(iter(self._troubles.values()), "")
            oldest = min((self._answered.get(each, 0.0) for each in self._troubles), default=0.0)
            changes = Changes(
                version=0,
                now=round(now, 3),
                is_read=self._answered.keys() >= set(feeds),
                trouble=trouble,
                as_of=round(oldest, 3) if oldest and now - oldest > _LATE else 0.0,
            )
            return found.since(since if view in (0, found.number) else 0, changes)

    def rows(self, sight: Sight = _ALL) -> list[NodeRow]:
        """Return the rows of the nodes."""
        with self._lock:
            return list(self._view(sight, self._now()).made)

    def pods(self, sight: Sight = _ALL) -> list[FleetPodRow]:
        """Return the rows of all pods."""
        with self._lock:
            return self._pods_of(sight)

    def namespaces(self) -> tuple[set[str], set[str]]:
        """Return the namespaces that have pods, and the ones that have devices."""
        with self._lock:
            return {each.namespace for each in self._pods.values()}, {each.namespace for each in self._devices}

    def node(self, name: str) -> JsonObject | None:
        """Return a Node."""
        with self._lock:
            return self._nodes.get(name)

    def _view(self, sight: Sight, now: float) -> _View:
        """Return a view that is a second old at most."""
        found = self._views.pop(sight, None)
        if found is None:
            self._views_made += 1
            found = _View(self._views_made)
        self._views[sight] = found  # the one that was asked for last is the last
        if len(self._views) > _MOST_VIEWS:
            del self._views[next(iter(self._views))]
        if now - found.made_at >= _PERIOD or now < found.made_at:
            if now - self._made_at >= _PERIOD or now < self._made_at:
                self._make(now)
            pods = self._pods_of(sight)
            rows = self._rows_of(sight, pods)
            found.take(rows, self._head_of(sight, rows, pods, now), now)
        return found

    def _make(self, now: float) -> None:
        """Make the rows of whoever may see everything."""
        self._made_at = now
        pods: defaultdict[str, list[FleetPodRow]] = defaultdict(list)
        for pod in self._pods.values():
            pods[pod.node].append(pod)
        names = self._nodes.keys() | self._links.connections.keys() | self._links.refused.keys()
        self._made = [self._row(name, pods.get(name, []), now) for name in names]
        self._made.sort(key=lambda row: (_RANK[row.state], row.ready - row.pods, row.name))
        for known in [key for key in self._moments if key[0] not in names]:
            del self._moments[known]

    def _pods_of(self, sight: Sight) -> list[FleetPodRow]:
        return [each for each in self._pods.values() if sight.has_pods(each.namespace)]

    def _rows_of(self, sight: Sight, pods: Sequence[FleetPodRow]) -> list[NodeRow]:
        """Return the rows of nodes, whose figures count only the pods that are seen."""
        if sight.is_whole or not sight.has_nodes:
            return self._made if sight.has_nodes else []
        number, ready = Counter(each.node for each in pods), Counter(each.node for each in pods if not each.is_troubled)
        return [msgspec.structs.replace(row, ready=ready[row.name], pods=number[row.name]) for row in self._made]

    def _head_of(self, sight: Sight, rows: Sequence[NodeRow], pods: Sequence[FleetPodRow], now: float) -> FleetHead:
        devices = [each for each in self._devices if sight.has_devices(each.namespace)]
        found, number = findings(Fleet(rows, pods, now, self._program, devices, has_all_pods=sight.pods_in is None))
        nodes = self._nodes if sight.has_nodes else {}
        joined = {name: seconds_of(text_at(each, "metadata.creationTimestamp")) for name, each in nodes.items()}
        links = self._sessions if sight.has_nodes else {}
        sessions = {node: [(each.began, each.ended) for each in found] for node, found in links.items()}
        counts = Counter(row.state for row in rows)
        happened, earlier = today(sessions, {name: at for name, at in joined.items() if at is not None}, now)
        return FleetHead(
            fleet_sentence(rows) if sight.has_nodes else [],
            pods_sentence(pods, rows) if pods or sight.pods_in is None else "",
            found, number - len(found), happened, dict(counts), earlier,
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
