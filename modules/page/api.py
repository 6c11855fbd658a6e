"""The requests of the page to its server: GET below `/page/v1`, answered in JSON."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Final, Protocol

import msgspec

from beehive.clock import Clock
from beehive.http.errors import HttpStatusError
from beehive.http.request import Request
from beehive.http.responses import Response, json, text
from beehive.whole_numbers import whole_number
from modules.apimachinery.node_job_kinds import JobKind
from modules.cli.errors import KubectlError
from modules.cli.rest import RestClient
from modules.cloud.authorization.rbac.rules import AccessRequest
from modules.cloud.device_values import ValueList, ValueQuery
from modules.cloud.jobs import JOBS
from modules.cloud.messages import LinkSession
from modules.insight.fleet.jobs import Jobs, jobs_of, without_links
from modules.insight.fleet.rollouts import Rollouts, rollouts
from modules.insight.fleet.rows import FleetPodRow, NodeRow, linked_names
from modules.insight.fleet.sentences import node_sentence
from modules.page.devices import DeviceReader
from modules.page.feeds import NAMES, ApiClient, Feeds, LinkSource
from modules.page.history import history_in_cloud
from modules.page.jobs import JobReader
from modules.page.journal import JournalReader, WriteSource
from modules.page.nodes import conditions_of, machine_facts
from modules.page.picture import Picture
from modules.page.pod_story import EventRow, PodStories
from modules.page.pods import pods_answer, pods_of_node
from modules.page.shells import ClosedDoor, ShellDoor
from modules.page.sight import (
    CHANGES_PATH,
    DEVICE_GROUP,
    DEVICE_KINDS,
    DEVICES,
    MOST_NAMESPACES,
    NODES,
    PODS,
    Refusal,
    Sight,
    UserSight,
    nothing_refused,
    seen_by,
)

_NODES: Final = AccessRequest(verb="list", resource=NODES)
_STATUSES: Final = "devicestatuses"
_JOBS: Final = "jobs"
_NO_NAMES: Final = (".", "..")
"""No object has them; in a path they lead elsewhere."""


class About(msgspec.Struct, frozen=True):
    """The answer of `GET /page/v1/me`."""

    server: str
    """The name of the cloud, or else the address that is asked."""
    version: str
    program: str
    node: str = ""
    """The node whose page it is; "" for a fleet."""
    user: str = ""
    """Who has signed in; "" for the owner of the command."""
    allowed: Sequence[str] = ()
    """Actions that the page offers beside reading: `exec`."""


class NodeStory(msgspec.Struct, frozen=True):
    """The answer of `GET /page/v1/nodes/NAME`."""

    sentence: str
    row: NodeRow
    facts: Mapping[str, str]
    conditions: Sequence[Mapping[str, str]]
    pods: Sequence[FleetPodRow]
    sessions: Sequence[LinkSession]
    events: Sequence[EventRow] | None
    """The newest Events about it; None: the server does not list them."""
    now: float


class AllRollouts(msgspec.Struct, frozen=True):
    """The answer of `GET /page/v1/rollouts`."""

    workloads: Rollouts | None
    """None for a user who may see no pods."""
    jobs: Jobs | None
    """None for a user who may see none, and if they cannot be read."""


class Journals(WriteSource, Protocol):
    """The journals of a cloudcore."""

    def history(self, node: str) -> list[LinkSession]:
        """Return the link journal of a node."""

    def device_values(self, query: ValueQuery) -> ValueList:
        """Return values of the device history."""


class PageSource(LinkSource, Journals, Protocol):
    """cloudcore's knowledge of links, and its journals."""


class WatchedFleet:
    """A fleet as the page's server knows it, for all who ask.

    Args:
        client: the Kubernetes API of a cloudcore.
        source: its links and journals.
        clock: for ages, and for the feeds.
        program: the cloudcore's.
        version: this server's.
    """

    def __init__(self, client: ApiClient, source: PageSource, clock: Clock, program: str, version: str) -> None:
        self.picture = Picture(clock.now, program, version)
        self.devices = DeviceReader(client, clock)
        self.jobs = JobReader(client, clock)
        self.journals: Journals = source
        self.feeds = Feeds(self.picture, client, source, self.devices, self.jobs, clock)
        """Fill the picture while somebody looks."""


class FleetApi:
    """The answers to the page's questions about a fleet; whoever asks has been checked.

    Args:
        fleet: the fleet.
        stories: say why a pod does not run.
        about: this server.
        refusal: the user's rights, which are asked for with each question.
        door: leads to containers.
        unknown: what this server does not know, and why, by part; shown as what the user may not see.
        most_namespaces: whose rights are looked up for a user who may not list everywhere; 0: as many as is usual.
    """

    def __init__(
        self,
        fleet: WatchedFleet,
        stories: PodStories,
        about: About,
        *,
        refusal: Refusal = nothing_refused,
        door: ShellDoor,
        unknown: Mapping[str, str] | None = None,
        most_namespaces: int = 0,
    ) -> None:
        self._most_namespaces = most_namespaces
        self._unknown = unknown or {}
        self.door = door
        self._picture = fleet.picture
        self._feeds = fleet.feeds
        self._stories = stories
        self._devices = fleet.devices
        self._jobs = fleet.jobs
        self._journals = fleet.journals
        self._changes = JournalReader(fleet.journals, fleet.picture)
        self._about = about
        self._refusal = refusal

    def close(self) -> None:
        """End the feeds."""
        self._feeds.stop()

    def serve(self, request: Request, parts: Sequence[str]) -> Response:
        """Return the answer to a GET.

        Args:
            request: the request.
            parts: of its path, below `/page/v1`.

        Raises:
            HttpStatusError: there is no such path, or no such node, or the user may see nothing of the answer.
            KubectlError: cloudcore refuses, or does not answer.
        """
        match parts:
            case ("me",):
                return json_of(self._about)
            case ("explain", namespace, name):  # these two are read with the user's own credentials
                return json_of(self._stories.story(namespace, name, self._picture.now(), self._row_seen))
            case ("log", namespace, name, container):
                return text(HTTPStatus.OK, self._stories.log(namespace, name, container))
            case ("history", namespace, name, property_name):
                self._check(AccessRequest(verb="get", group=DEVICE_GROUP, resource=_STATUSES, namespace=namespace))
                found = self._journals.device_values(ValueQuery(namespace, name, property_name))
                has_links = found.node and not self._refusal(_NODES)
                sessions = self._journals.history(found.node) if has_links else []
                return json_of(history_in_cloud(found, sessions, self._picture.now()))
            case ("journal",):
                self._check(AccessRequest(verb="get", path=CHANGES_PATH))
            case ("rollouts", kind, name):
                if kind not in JOBS or name in _NO_NAMES:
                    raise HttpStatusError(404, "there is no such kind of job")
                self._check(_job_access(JobKind(kind), "get"))
            case ("devices", namespace, _):
                for kind in DEVICE_KINDS:
                    self._check(AccessRequest(verb="get", group=DEVICE_GROUP, resource=kind, namespace=namespace))
        return self._serve_seen(request, parts)

    def _serve_seen(self, request: Request, parts: Sequence[str]) -> Response:
        """Return an answer with the parts that the user may see."""
        if parts == ("changes",):
            self._feeds.start()
            sees, refused = self._seen()
            if not sees.has_nodes and sees.pods_in == sees.devices_in == frozenset():
                raise HttpStatusError(403, refused[NODES])
            since, view = (whole_number(request.first(name), 15) or 0 for name in ("since", "view"))
            return json_of(self._picture.changes(since, NAMES, sees, view), refused)
        self._feeds.start_and_wait()
        sees, refused = self._seen(are_devices_asked=parts == ("devices",))
        now, rows, shown = (
            self._picture.now(),
            self._picture.rows(sees),
            {part: why for part, why in refused.items() if part != DEVICES},
        )
        match parts:
            case ("nodes", name):
                _refuse(refused.get(NODES, ""))
                return json_of(self._node(name, rows, sees), shown)
            case ("pods",):
                _refuse(refused[PODS] if sees.pods_in == frozenset() else "")
                return json_of(pods_answer(self._picture.pods(sees), rows, request.first("q")), shown, now)
            case ("rollouts",):
                return self._rollouts(rows, sees, shown)
            case ("rollouts", kind, name):
                here = linked_names(rows) if sees.has_nodes else None
                story = self._jobs.story(JobKind(kind), name, here, request.first("q"))
                shown = {part: why for part, why in refused.items() if part == NODES}
                return json_of(story, shown, now)
            case ("journal",):
                return json_of(self._changes.page(request.first("q"), sees), shown, now)
            case ("devices",):
                _refuse(refused[DEVICES] if sees.devices_in == frozenset() else "")
                shown = {part: why for part, why in refused.items() if part != PODS}
                return json_of(self._devices.devices(rows, request.first("q"), sees), shown)
            case ("devices", namespace, name):
                shown = {part: why for part, why in refused.items() if part == NODES}
                return json_of(self._devices.story(namespace, name, rows, sees), shown)
        raise HttpStatusError(404, "the page's server has no such path")

    def _rollouts(self, rows: Sequence[NodeRow], sees: Sight, shown: Mapping[str, str]) -> Response:
        """Return the workloads and the jobs that a user sees."""
        asked = {kind.value: self._refusal(_job_access(kind, "list")) for kind in JobKind}
        refused = {kind: why for kind, why in asked.items() if why}
        has_pods = sees.pods_in != frozenset()
        if not has_pods and len(refused) == len(JobKind):
            raise HttpStatusError(403, shown[PODS])
        workloads = rollouts(self._picture.pods(sees), rows, self._picture.lacks(sees)) if has_pods else None
        jobs: Jobs | None = None
        trouble: dict[str, str] = {}
        if len(refused) < len(JobKind):
            try:
                found = [
                    each for each in self._jobs.rows(linked_names(self._picture.rows())) if each.kind not in refused
                ]
                jobs = jobs_of(found if sees.has_nodes else map(without_links, found))
            except KubectlError as error:
                trouble = {_JOBS: f"the jobs of nodes: {error}"}
        if refused:
            _, *others = (JOBS[JobKind(kind)].plural for kind in refused)
            more = f"; the same for {' and '.join(others)}" if others else ""
            trouble[_JOBS] = "; ".join(filter(None, (f"{next(iter(refused.values()))}{more}", trouble.get(_JOBS))))
        return json_of(AllRollouts(workloads, jobs), {**shown, **trouble}, self._picture.now())

    def _seen(self, *, are_devices_asked: bool = False) -> UserSight:
        picture = self._picture
        devices = picture.device_namespaces
        if are_devices_asked:  # the picture has those of half a minute ago
            devices = lambda: {each.namespace for each in self._devices.facts()[0]}  # noqa: E731 - has no name
        most = self._most_namespaces or MOST_NAMESPACES
        sight, refused = seen_by(self._refusal, picture.pod_namespaces, devices, most)
        return UserSight(sight, {**refused, **self._unknown})

    def _row_seen(self, name: str) -> NodeRow | None:
        """Return the row of a node, if the user may see nodes."""
        self._feeds.start_and_wait()
        rows = self._picture.rows(self._seen().sight)
        return next((each for each in rows if each.name == name), None)

    def _check(self, asked: AccessRequest) -> None:
        """Raise HttpStatusError with 403 if the user may not do something."""
        _refuse(self._refusal(asked))

    def _node(self, name: str, rows: Sequence[NodeRow], sees: Sight) -> NodeStory:
        row = next((each for each in rows if each.name == name), None)
        if row is None:
            raise HttpStatusError(404, f"there is no node {name}, and none is connected by this name")
        node = self._picture.node(name) or {}
        pods = pods_of_node(self._picture.pods(sees), name)
        sessions, now = self._journals.history(name), self._picture.now()
        sentence = node_sentence(row, now, has_all_pods=sees.pods_in is None)
        events = self._stories.events_of_node(name)
        return NodeStory(sentence, row, machine_facts(node), conditions_of(node), pods, sessions, events, now)


def fleet_api(
    client: RestClient,
    source: PageSource,
    clock: Clock,
    about: About,
    door: ShellDoor | None = None,
    *,
    unknown: Mapping[str, str] | None = None,
) -> FleetApi:
    """Return the answers about the fleet of a cloudcore.

    Args:
        client: its Kubernetes API.
        source: its links and journals.
        clock: for ages, and for the feeds.
        about: this server.
        door: leads to containers; None: the page is read only.
        unknown: see `FleetApi`.
    """
    return FleetApi(
        WatchedFleet(client, source, clock, about.program, about.version),
        PodStories(about.program, client),
        about,
        door=door or ClosedDoor(f"{about.program} page --allow exec"),
        unknown=unknown,
    )


def json_of(content: object, forbidden: Mapping[str, str] | None = None, now: float = 0.0) -> Response:
    """Return an answer in JSON.

    Args:
        content: an object that is not empty.
        forbidden: the parts that its user may not see.
        now: seconds since 1970 by this server's clock, for an answer that does not have it; ages count from it.
    """
    body = msgspec.json.encode(content)
    more = {name: value for name, value in (("forbidden", forbidden), ("now", now)) if value}
    return json(msgspec.json.encode(more)[:-1] + b"," + body[1:] if more else body)


def _job_access(kind: JobKind, verb: str) -> AccessRequest:
    group, _, _ = JOBS[kind].api_version.partition("/")
    return AccessRequest(verb=verb, group=group, resource=JOBS[kind].plural)


def _refuse(why: str) -> None:
    if why:
        raise HttpStatusError(403, why)
