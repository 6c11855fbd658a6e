"""What the page asks its server: GET below `/page/v1`, answered in JSON."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Final

import msgspec

from beehive.http.errors import HttpStatusError
from beehive.http.request import Request
from beehive.http.responses import Response, json, text
from beehive.whole_numbers import whole_number
from modules.cloud.messages import LinkSession
from modules.page.devices import DeviceReader
from modules.page.feeds import NAMES, Feeds
from modules.page.picture import Picture
from modules.page.pod_story import PodStories
from modules.tools.fleet.rollouts import rollouts
from modules.tools.fleet.rows import LONGEST, FleetPodRow, NodeRow
from modules.tools.fleet.sentences import pods_sentence
from modules.tools.printing.fields import JsonObject, objects_at, text_at

_MOST_PODS: Final = 200
_CONDITION: Final = ("type", "status", "reason", "message", "lastTransitionTime")


class About(msgspec.Struct, frozen=True):
    """The answer of `GET /page/v1/me`."""

    server: str
    """The control socket."""
    version: str
    program: str


class PodGroup(msgspec.Struct, frozen=True):
    """Pods that do not run for the same reason."""

    owner: str
    status: str
    pods: Sequence[FleetPodRow]


class Pods(msgspec.Struct, frozen=True):
    """The answer of `GET /page/v1/pods`."""

    sentence: str
    groups: Sequence[PodGroup]
    """Those that do not run, unless something is searched."""
    found: Sequence[FleetPodRow]
    """Those that a search has found."""
    more: int
    """Pods that were found beyond these."""


class NodeStory(msgspec.Struct, frozen=True):
    """The answer of `GET /page/v1/nodes/NAME`."""

    row: NodeRow
    facts: Mapping[str, str]
    conditions: Sequence[Mapping[str, str]]
    pods: Sequence[FleetPodRow]
    sessions: Sequence[LinkSession]
    now: float


class FleetApi:
    """Answers the page's questions about a fleet; whoever asks has been checked.

    Args:
        picture: of the fleet.
        feeds: fill the picture while somebody looks.
        stories: say why a pod does not run.
        devices: reads the devices.
        history: returns the link journal of a node.
        about: this server.
        now: returns the seconds since 1970.
    """

    def __init__(
        self,
        picture: Picture,
        feeds: Feeds,
        stories: PodStories,
        devices: DeviceReader,
        history: Callable[[str], list[LinkSession]],
        about: About,
        now: Callable[[], float],
    ) -> None:
        self._picture = picture
        self._feeds = feeds
        self._stories = stories
        self._devices = devices
        self._history = history
        self._about = about
        self._now = now

    def serve(self, request: Request, parts: Sequence[str]) -> Response:
        """Return the answer to a GET.

        Args:
            request: the request.
            parts: of its path, below `/page/v1`.

        Raises:
            HttpStatusError: there is no such path, or no such node.
            KubectlError: cloudcore refuses, or does not answer.
        """
        match parts:
            case ("me",):
                return _json(self._about)
            case ("changes",):
                self._feeds.look()
                return _json(self._picture.changes(_number(request.first("since")), len(NAMES)))
            case ("nodes", name):
                self._feeds.look()
                return _json(self._node(name))
            case ("pods",):
                self._feeds.look()
                return _json(self._pods(request.first("q")))
            case ("rollouts",):
                self._feeds.look()
                return _json(rollouts(self._picture.pods(), self._picture.rows()))
            case ("devices",):
                self._feeds.look()
                return _json(self._devices.devices(self._picture.rows(), request.first("q")))
            case ("devices", namespace, name):
                self._feeds.look()
                return _json(self._devices.story(namespace, name, self._picture.rows()))
            case ("explain", namespace, name):
                return _json(self._stories.story(namespace, name, self._now()))
            case ("log", namespace, name, container):
                return text(HTTPStatus.OK, self._stories.log(namespace, name, container))
        raise HttpStatusError(404, "the page's server has no such path")

    def _node(self, name: str) -> NodeStory:
        row = next((each for each in self._picture.rows() if each.name == name), None)
        if row is None:
            raise HttpStatusError(404, f"there is no node {name}, and none is connected by this name")
        node = self._picture.node(name) or {}
        conditions = [
            {key: text_at(each, key)[:LONGEST] for key in _CONDITION} for each in objects_at(node, "status.conditions")
        ]
        pods = sorted(
            (each for each in self._picture.pods() if each.node == name),
            key=lambda each: (not each.is_troubled, each.key),
        )
        return NodeStory(row, _facts(node), conditions, pods, self._history(name), self._now())

    def _pods(self, query: str) -> Pods:
        pods = sorted(self._picture.pods(), key=lambda each: each.key)
        sentence = pods_sentence(pods, self._picture.rows())
        words = query.lower().split()
        if words:
            found = [each for each in pods if all(word in _searched(each) for word in words)]
            return Pods(
                pods_sentence(pods, self._picture.rows()), [], found[:_MOST_PODS], max(0, len(found) - _MOST_PODS)
            )
        groups: defaultdict[tuple[str, str], list[FleetPodRow]] = defaultdict(list)
        for pod in pods:
            if pod.is_troubled:
                groups[pod.owner or f"pod {pod.key}", pod.status].append(pod)
        most = sorted(groups.items(), key=lambda each: -len(each[1]))[:_MOST_PODS]
        shown = [PodGroup(owner, status, rows[:_MOST_PODS]) for (owner, status), rows in most]
        more = sum(len(rows) for rows in groups.values()) - sum(len(each.pods) for each in shown)
        return Pods(sentence, shown, [], more)


def _facts(node: JsonObject) -> dict[str, str]:
    """Return what a Node says of its machine."""
    info = ("kubeletVersion", "osImage", "kernelVersion", "architecture", "containerRuntimeVersion")
    addresses = [f"{text_at(each, 'type')} {text_at(each, 'address')}" for each in objects_at(node, "status.addresses")]
    facts = {name: text_at(node, f"status.nodeInfo.{name}") for name in info}
    facts |= {f"capacity {name}": text_at(node, f"status.capacity.{name}") for name in ("cpu", "memory", "pods")}
    return {name: value[:LONGEST] for name, value in {**facts, "addresses": ", ".join(addresses)}.items() if value}


def _searched(pod: FleetPodRow) -> str:
    return f"{pod.key} {pod.node} {pod.status} {pod.owner} {pod.image}".lower()


def _number(given: str) -> int:
    return whole_number(given, 15) or 0


def _json(content: object) -> Response:
    return json(msgspec.json.encode(content))
