"""The picture of a fleet: the reports of the feeds, and the rows that are made of them."""

import threading
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from modules.apimachinery.printing.ages import seconds_of
from modules.apimachinery.printing.fields import JsonObject
from modules.cloud.messages import LinkSession, NodeConnection
from modules.insight.fleet.devices import DeviceFacts
from modules.insight.fleet.facts import LinkKnowledge, linked_row
from modules.insight.fleet.findings import Fleet, FleetFinding, findings
from modules.insight.fleet.jobs import JobRow, changes_under_way, without_links
from modules.insight.fleet.lacks import Lack
from modules.insight.fleet.rows import FleetPodRow, NodeRow, PodCount, clock_error, pod_row
from modules.insight.fleet.sentences import SentencePart, counted_pods, fleet_sentence
from modules.insight.fleet.states import AWAY, AWAY_AFTER, BEHIND, CONNECTED, LOST, NEVER
from modules.insight.fleet.today import Happening, today
from modules.page.nodes import ShortNode, short_node
from modules.page.sight import Sight

_RANK: Final = {AWAY: 0, LOST: 1, BEHIND: 2, NEVER: 3, CONNECTED: 4}
_GONE: Final = 4096
"""Rows that have gone and are remembered; a page that has not asked for longer gets all rows."""
_PERIOD: Final = 1.0
"""Least seconds between two computations of the rows."""
_NEAR: Final = 3.0
"""Largest difference, in seconds, of two equal moments."""
_LATE: Final = 10.0
"""Seconds without an answer of the server until a page shows it."""
_SILENT: Final = "no answer from the API server"
_ALL: Final = Sight()
_SHARE: Final = 200.0
"""Times that the last computation took until the next one, within `_AGES_PERIOD`: a fleet that always changes takes
half a hundredth of a processor.
"""
_AGES_PERIOD: Final = 5.0
"""Seconds after which a view without a change is made again: its sentences have ages."""
_ALL_PERIOD: Final = 60.0
"""Seconds after which all rows are made again: a gap of yesterday leaves them with time alone."""
_DELETED: Final = "DELETED"
_SHARED: Final = ("namespace", "node", "status", "ready", "owner", "image", "created")
"""Fields of a pod's row that many pods have in common."""
_FEW_WORDS: Final = 1000
"""Texts of pods up to which it is not worth looking for texts that no pod has now."""
_LATE_KEEPALIVE: Final = 30.0
"""Seconds without a keepalive from which on the state of a connection is looked at again."""
_MOST_VIEWS: Final = 16
"""Views that are kept; with more the least recently used one is made again."""


class Links(msgspec.Struct, frozen=True):
    """cloudcore's knowledge of nodes' links."""

    connections: Mapping[str, NodeConnection] = {}
    """To the cloudcore that was asked, by node."""
    elsewhere: Mapping[str, str] = {}
    """By node, another cloudcore that is alive and has it."""
    refused: Mapping[str, str] = {}
    """By node, why its connection was refused."""
    are_known: bool = True
    """Whether a cloudcore was asked; else the conditions of Nodes stand in."""


class FleetHead(msgspec.Struct, frozen=True, omit_defaults=True):
    """The head of a page about the fleet, above its table."""

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
    set: Sequence[NodeRow] = ()
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
        self.edition = 0
        """The edition of the picture that it was made of."""
        self.version = 0
        self._rows: dict[str, tuple[int, NodeRow]] = {}
        """By name, the version of a row's last change, and the row."""
        self._gone: deque[tuple[int, str]] = deque(maxlen=_GONE)
        self._forgotten = 0
        """The last version with forgotten removals of rows."""
        self._head: tuple[int, bytes, FleetHead] | None = None

    def replace(self, made: list[NodeRow], head: FleetHead, edition: int, now: float) -> None:
        """Take over new rows; the version grows if any differs."""
        self.made, self.made_at, self.edition = made, now, edition
        gone = self._rows.keys() - {row.name for row in made}
        changed = [row for row in made if (known := self._rows.get(row.name)) is None or known[1] != row]
        head_bytes = msgspec.json.encode(head)
        is_other = self._head is None or self._head[1] != head_bytes
        if changed or gone or is_other:
            self.version += 1
        for row in changed:
            self._rows[row.name] = self.version, row
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
            set=[row for at, row in self._rows.values() if is_full or at > version],
            gone=() if is_full else [name for at, name in self._gone if at > version],
            head=head[2] if head is not None and (is_full or head[0] > version) else None,
        )


class Picture:
    """The nodes, pods and links of a fleet, and rows with versions. Thread-safe.

    Args:
        now: returns the seconds since 1970.
        program: the command that findings name.
        version: of this cloudcore, for nodes that do not suit it; "" compares none.
    """

    def __init__(self, now: Callable[[], float], program: str = "cloudcore", version: str = "") -> None:
        self.now = now
        """Returns the seconds since 1970."""
        self._version = version
        self._program = program
        self._lock = threading.Lock()
        self._nodes: dict[str, ShortNode] = {}
        self._joined: dict[str, float] = {}
        """When each Node was made."""
        self._pods: dict[str, FleetPodRow] = {}
        self._troubled: dict[str, FleetPodRow] = {}
        """The pods that do not run."""
        self._bound: Counter[str] = Counter()
        self._ready: Counter[str] = Counter()
        """The numbers of pods and of running pods, by node."""
        self._words: dict[str, str] = {}
        """Each text once that many pods have in common."""
        self._most_words = _FEW_WORDS
        """With more of them, texts that no pod has now are forgotten."""
        self._lacks: Sequence[Lack] = ()
        self._jobs: Sequence[JobRow] = ()
        self._devices: Sequence[DeviceFacts] = ()
        self._links = Links()
        self._links_at = 0.0
        """When they were read: their ages count from then."""
        self._moments: dict[tuple[str, str], float] = {}
        """Moments that were computed from ages, by node and kind: an answer that takes longer is no change."""
        self._sessions: dict[str, list[LinkSession]] = {}
        self._answered: dict[str, float] = {}
        """When each feed has got its last answer."""
        self._asked: dict[str, float] = {}
        """Since when each feed waits for an answer."""
        self._troubles: dict[str, str] = {}
        self._made: dict[str, NodeRow] = {}
        self._made_at = self._all_made_at = float("-inf")
        self._changed: set[str] = set()
        """The nodes whose rows have to be made again."""
        self._edition = 0
        """Grows with everything that is reported and differs: without that, only ages change."""
        self._made_edition = 0
        """The edition of the rows that were made last."""
        self._happened: tuple[list[Happening], int] | None = None
        """What happened today; None: that has to be looked for."""
        self._happened_until = 0.0
        """Until when it is so if nothing changes: then a node whose connection has ended is away."""
        self._views: dict[Sight, _View] = {}
        self._views_made = 0
        self._pause = _PERIOD
        """Seconds from one computation to the next one."""

    # What feeds report

    def put_nodes(self, nodes: Iterable[ShortNode]) -> None:
        """Take over all Nodes."""
        found = {each.name: each for each in nodes}
        with self._lock:
            for name in self._nodes.keys() - found.keys():
                self._update_node(name, None)
            for name, node in found.items():
                self._update_node(name, node)

    def put_pods(self, pods: Iterable[FleetPodRow]) -> None:
        """Take over all pods."""
        found = {each.key: each for each in pods}
        with self._lock:
            for key in self._pods.keys() - found.keys():
                self._update_pod(key, None)
            for key, row in found.items():
                self._update_pod(key, row)

    def change_node(self, change: str, node: JsonObject) -> None:
        """Take over a change that a watch reports."""
        found = short_node(node)
        with self._lock:
            self._update_node(found.name, None if change == _DELETED else found)

    def change_pod(self, change: str, pod: JsonObject) -> None:
        """Take over a change that a watch reports."""
        row = pod_row(pod)
        with self._lock:
            self._update_pod(row.key, None if change == _DELETED else row)

    def _update_node(self, name: str, node: ShortNode | None) -> None:
        if self._nodes.get(name) == node:
            return
        self._edition += 1
        self._changed.add(name)
        if node is None or name not in self._nodes:
            self._happened = None
        if node is None:
            del self._nodes[name]
            self._joined.pop(name, None)
            return
        self._nodes[name] = node
        self._joined[name] = seconds_of(node.created) or 0.0

    def _update_pod(self, key: str, row: FleetPodRow | None) -> None:
        former = self._pods.get(key)
        if former == row:
            return
        self._edition += 1
        for each, sign in ((former, -1), (row, 1)):
            if each is not None:
                _add(self._bound, each.node, sign)
                _add(self._ready, each.node, 0 if each.is_troubled else sign)
                self._changed.add(each.node)
        self._pods.pop(key, None)
        self._troubled.pop(key, None)
        if row is not None:
            shared = {name: self._shared(getattr(row, name)) for name in _SHARED}
            self._pods[key] = row = msgspec.structs.replace(row, **shared)
            if row.is_troubled:
                self._troubled[key] = row
        if len(self._words) > self._most_words:
            rows = self._pods.values()
            self._words = {word: word for each in rows for word in (getattr(each, name) for name in _SHARED)}
            self._most_words = 2 * len(self._words) + _FEW_WORDS

    def _shared(self, word: str) -> str:
        """Return the first text that is equal: 40,000 pods have a few thousand texts in common."""
        return self._words.setdefault(word, word)

    def put_links(self, links: Links) -> None:
        """Take over the present connections."""
        with self._lock:
            former, self._links, self._links_at = self._links, links, self.now()
            names = former.connections.keys() | links.connections.keys()
            changed = {name for name in names if _is_other(former.connections.get(name), links.connections.get(name))}
            for was, given in ((former.elsewhere, links.elsewhere), (former.refused, links.refused)):
                changed |= {name for name, _ in was.items() ^ given.items()}
            self._changed |= changed
            self._edition += bool(changed)
            if former.are_known != links.are_known:
                self._made_at = self._all_made_at = float("-inf")

    def put_sessions(self, sessions: Iterable[LinkSession]) -> None:
        """Take over the link journal of the last 24 hours, and the newest connection of each node."""
        by_node: defaultdict[str, list[LinkSession]] = defaultdict(list)
        for each in sessions:
            by_node[each.node].append(each)
        with self._lock:
            names = self._sessions.keys() | by_node.keys()
            changed = {name for name in names if self._sessions.get(name) != by_node.get(name)}
            self._sessions = dict(by_node)
            if changed:
                self._changed |= changed
                self._edition += 1
                self._happened = None

    def put_devices(self, facts: Sequence[DeviceFacts]) -> None:
        """Take over the facts of all devices."""
        with self._lock:
            self._edition += self._devices != facts
            self._devices = facts

    def put_lacks(self, lacks: Sequence[Lack]) -> None:
        """Take over the workloads that lack something."""
        with self._lock:
            self._edition += self._lacks != lacks
            self._lacks = lacks

    def put_jobs(self, jobs: Sequence[JobRow]) -> None:
        """Take over the jobs of nodes."""
        with self._lock:
            self._edition += self._jobs != jobs
            self._jobs = jobs

    def lacks(self, sight: Sight = _ALL) -> list[Lack]:
        """Return the workloads that lack something."""
        return [each for each in self._lacks if sight.has_workloads and sight.has_pods(each.namespace)]

    def asks(self, feed: str) -> None:
        """Note that a feed waits for an answer from now on."""
        with self._lock:
            self._asked[feed] = self.now()

    def answered(self, feed: str, trouble: str = "") -> None:
        """Note that a feed has got an answer, or why it has got none."""
        with self._lock:
            self._asked.pop(feed, None)
            if trouble:
                self._troubles[feed] = trouble
            else:
                if feed not in self._answered:  # what was made before this is not what has been read
                    for each in self._views.values():
                        each.made_at = float("-inf")
                    self._made_at = float("-inf")
                self._answered[feed] = self.now()
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
            now = self.now()
            found = self._view(sight, now)
            silent = [feed for feed, at in self._asked.items() if now - at > _LATE and feed not in self._troubles]
            trouble = next(iter(self._troubles.values()), _SILENT if silent else "")
            oldest = min((self._answered.get(each, 0.0) for each in (*self._troubles, *silent)), default=0.0)
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
            return list(self._view(sight, self.now()).made)

    def pods(self, sight: Sight = _ALL) -> list[FleetPodRow]:
        """Return the rows of all pods."""
        with self._lock:
            return self._pods_of(sight)

    def pod_namespaces(self) -> set[str]:
        """Return the namespaces that have pods."""
        with self._lock:
            return {each.namespace for each in self._pods.values()}

    def device_namespaces(self) -> set[str]:
        """Return the namespaces that have devices."""
        with self._lock:
            return {each.namespace for each in self._devices}

    def node(self, name: str) -> JsonObject | None:
        """Return the known facts about a Node."""
        with self._lock:
            found = self._nodes.get(name)
        return found.object() if found is not None else None

    def _view(self, sight: Sight, now: float) -> _View:
        """Return a view without a change that is older than a second, or than the pause of a large fleet."""
        found = self._views.pop(sight, None)
        if found is None:
            self._views_made += 1
            found = _View(self._views_made)
        self._views[sight] = found  # the one that was asked for last is the last
        if len(self._views) > _MOST_VIEWS:
            del self._views[next(iter(self._views))]
        period = _AGES_PERIOD if found.edition == self._edition else self._pause
        if now - found.made_at >= period or now < found.made_at:
            if now - self._made_at >= _PERIOD or now < self._made_at:
                self._make(now)
            rows = self._rows_of(sight)
            found.replace(rows, self._head_of(sight, rows, now), self._made_edition, now)
            self._pause = min(max(_PERIOD, _SHARE * (self.now() - now)), _AGES_PERIOD)
        return found

    def _make(self, now: float) -> None:
        """Make the rows again that have changed, or that are no longer so by themselves; all now and then."""
        is_all = now - self._all_made_at >= _ALL_PERIOD or now < self._all_made_at
        nodes, connections, refused = self._nodes, self._links.connections, self._links.refused
        if is_all:
            due = nodes.keys() | connections.keys() | refused.keys() | self._made.keys()
            self._all_made_at = now
            self._happened = None
        else:
            due = self._changed | {name for name, row in self._made.items() if row.state in (LOST, BEHIND)}
        for name in due:
            if name in nodes or name in connections or name in refused:
                row = self._row(name, now)
                if self._made.get(name) != row:
                    self._made[name] = row
            else:
                self._made.pop(name, None)
                for what in ("since", "oldest"):
                    self._moments.pop((name, what), None)
        self._changed.clear()
        self._made_at, self._made_edition = now, self._edition

    def _pods_of(self, sight: Sight) -> list[FleetPodRow]:
        return [each for each in self._pods.values() if sight.has_pods(each.namespace)]

    def _rows_of(self, sight: Sight) -> list[NodeRow]:
        """Return the rows of nodes, whose figures count only the pods that are seen."""
        if not sight.has_nodes:
            return []
        rows = sorted(self._made.values(), key=lambda row: (_RANK[row.state], row.ready - row.pods, row.name))
        changing = changes_under_way(self._jobs) if sight.has_jobs else {}
        rows = [
            msgspec.structs.replace(row, reason=changing[row.name])
            if row.name in changing and row.state in (LOST, AWAY, BEHIND)
            else row
            for row in rows
        ]
        if sight.is_whole:
            return rows
        pods = self._pods_of(sight)
        bound, ready = Counter(each.node for each in pods), Counter(each.node for each in pods if not each.is_troubled)
        return [msgspec.structs.replace(row, ready=ready[row.name], pods=bound[row.name]) for row in rows]

    def _head_of(self, sight: Sight, rows: Sequence[NodeRow], now: float) -> FleetHead:
        devices = [each for each in self._devices if sight.has_devices(each.namespace)]
        troubled = [each for each in self._troubled.values() if sight.has_pods(each.namespace)]
        whole = sight.pods_in is None
        found, number = findings(
            Fleet(
                rows,
                troubled,
                now,
                self._program,
                devices,
                self.lacks(sight),
                (self._jobs if sight.has_nodes else [*map(without_links, self._jobs)]) if sight.has_jobs else (),
                has_all_pods=whole,
                version=self._version,
            )
        )
        counts = Counter(row.state for row in rows)
        happened, earlier = self._happenings(now) if sight.has_nodes else ([], 0)
        return FleetHead(
            fleet_sentence(rows) if sight.has_nodes else [], self._pods_sentence(sight, rows, troubled),
            found, number - len(found), happened, dict(counts), earlier,
        )  # fmt: skip

    def _happenings(self, now: float) -> tuple[list[Happening], int]:
        """Return what happened today; it is looked for again with a change, when a node is away, and now and then."""
        if self._happened is None or now > self._happened_until:
            sessions = {node: [(each.began, each.ended) for each in found] for node, found in self._sessions.items()}
            self._happened = today(sessions, self._joined, now)
            ends = (found[-1][1] + AWAY_AFTER for found in map(sorted, sessions.values()))
            self._happened_until = min((each for each in ends if each >= now), default=float("inf"))
        return self._happened

    def _pods_sentence(self, sight: Sight, rows: Sequence[NodeRow], troubled: Sequence[FleetPodRow]) -> str:
        """Return the sentence about the pods, by counting only the pods that do not run."""
        total = len(self._pods) if sight.pods_in is None else len(self._pods_of(sight))
        if not total and sight.pods_in is not None:
            return ""
        away = {row.name: row.pods for row in rows if row.state in (AWAY, NEVER)}
        gone = sum(away.values())
        return counted_pods(total - gone, total - gone - sum(each.node not in away for each in troubled), gone)

    def _row(self, name: str, now: float) -> NodeRow:
        known, connection = self._nodes.get(name), self._links.connections.get(name)
        link = LinkKnowledge(
            connection, self._links.elsewhere.get(name, ""), self._links.refused.get(name, ""),
            self._sessions.get(name, ()), is_known=self._links.are_known,
        )  # fmt: skip
        pods = PodCount(self._bound[name], self._ready[name])
        row = linked_row(name, known.object() if known is not None else None, link, pods, now)
        if connection is None:
            return row
        oldest = self._moment(name, "oldest", connection.oldest_seconds) if connection.unacknowledged else 0.0
        since = self._moment(name, "since", connection.connected_seconds)
        return msgspec.structs.replace(row, since=since, oldest=oldest)

    def _moment(self, name: str, what: str, seconds: float) -> float:
        """Return the moment that was so many seconds before the links were read, the one known before if it is near."""
        found, known = float(round(self._links_at - seconds)), self._moments.get((name, what), 0.0)
        if abs(found - known) < _NEAR:
            return known
        self._moments[name, what] = found
        return found


def _add(counter: Counter[str], name: str, number: int) -> None:
    """Add to a name's number; of a name with 0 nothing is kept."""
    counter[name] += number
    if not counter[name]:
        del counter[name]


def _is_other(former: NodeConnection | None, link: NodeConnection | None) -> bool:
    """Return whether a connection differs by more than its age."""
    if former is None or link is None:
        return former is not link
    if link.unacknowledged or link.keepalive_seconds > _LATE_KEEPALIVE:
        return True
    return _without_ages(former) != _without_ages(link)


def _without_ages(link: NodeConnection) -> tuple[object, ...]:
    return (
        link.connection, link.waiting, link.unacknowledged, link.is_behind, link.last_error, link.address,
        link.certificate_ends, clock_error(link.clock_ahead_seconds),
    )  # fmt: skip
