"""What the page asks its server: GET below `/page/v1`, answered in JSON."""

from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Protocol

import msgspec

from beehive.clock import Clock
from beehive.http.errors import HttpStatusError
from beehive.http.request import Request
from beehive.http.responses import Response, json, text
from beehive.whole_numbers import whole_number
from modules.cloud.device_values import ValueList, ValueQuery
from modules.cloud.messages import LinkSession
from modules.page.devices import DeviceReader
from modules.page.feeds import NAMES, Feeds, LinkSource
from modules.page.history import history_in_cloud
from modules.page.journal import JournalReader, WriteSource
from modules.page.nodes import conditions_of, machine_facts
from modules.page.picture import Picture
from modules.page.pod_story import PodStories
from modules.page.pods import pods_answer, pods_of_node
from modules.tools.fleet.rollouts import rollouts
from modules.tools.fleet.rows import FleetPodRow, NodeRow
from modules.tools.fleet.sentences import node_sentence
from modules.tools.kubectl.rest import RestClient


class About(msgspec.Struct, frozen=True):
    """The answer of `GET /page/v1/me`."""

    server: str
    """The socket that is asked."""
    version: str
    program: str
    node: str = ""
    """The node whose page it is; "" for a fleet."""
    user: str = ""
    """Who has signed in; "" for the owner of the command."""


class NodeStory(msgspec.Struct, frozen=True):
    """The answer of `GET /page/v1/nodes/NAME`."""

    sentence: str
    row: NodeRow
    facts: Mapping[str, str]
    conditions: Sequence[Mapping[str, str]]
    pods: Sequence[FleetPodRow]
    sessions: Sequence[LinkSession]
    now: float


class Journals(WriteSource, Protocol):
    """The journals of a cloudcore."""

    def history(self, node: str) -> list[LinkSession]:
        """Return the link journal of a node."""

    def device_values(self, query: ValueQuery) -> ValueList:
        """Return values of the device history."""


class PageSource(LinkSource, Journals, Protocol):
    """What cloudcore knows of links, and its journals."""


class FleetApi:
    """Answers the page's questions about a fleet; whoever asks has been checked.

    Args:
        picture: of the fleet.
        feeds: fill the picture while somebody looks.
        stories: say why a pod does not run.
        devices: reads the devices.
        journals: of links, of changes and of the values of devices.
        about: this server.
        now: returns the seconds since 1970.
    """

    def __init__(
        self,
        picture: Picture,
        feeds: Feeds,
        stories: PodStories,
        devices: DeviceReader,
        journals: Journals,
        about: About,
        now: Callable[[], float],
    ) -> None:
        self._picture = picture
        self._feeds = feeds
        self._stories = stories
        self._devices = devices
        self._journals = journals
        self._changes = JournalReader(journals, picture)
        self._about = about
        self._now = now

    def close(self) -> None:
        """End the feeds."""
        self._feeds.stop()

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
                return json_of(self._about)
            case ("changes",):
                self._feeds.look()
                return json_of(self._picture.changes(whole_number(request.first("since"), 15) or 0, NAMES))
            case ("nodes", name):
                self._feeds.look_when_read()
                return json_of(self._node(name))
            case ("pods",):
                self._feeds.look_when_read()
                return json_of(pods_answer(self._picture.pods(), self._picture.rows(), request.first("q")))
            case ("rollouts",):
                self._feeds.look_when_read()
                return json_of(rollouts(self._picture.pods(), self._picture.rows()))
            case ("journal",):
                self._feeds.look_when_read()
                return json_of(self._changes.page(request.first("q")))
            case ("devices",):
                self._feeds.look_when_read()
                return json_of(self._devices.devices(self._picture.rows(), request.first("q")))
            case ("devices", namespace, name):
                self._feeds.look_when_read()
                return json_of(self._devices.story(namespace, name, self._picture.rows()))
            case ("history", namespace, name, property_name):
                found = self._journals.device_values(ValueQuery(namespace, name, property_name))
                sessions = self._journals.history(found.node) if found.node else []
                return json_of(history_in_cloud(found, sessions, self._now()))
            case ("explain", namespace, name):
                return json_of(self._stories.story(namespace, name, self._now()))
            case ("log", namespace, name, container):
                return text(HTTPStatus.OK, self._stories.log(namespace, name, container))
        raise HttpStatusError(404, "the page's server has no such path")

    def _node(self, name: str) -> NodeStory:
        row = next((each for each in self._picture.rows() if each.name == name), None)
        if row is None:
            raise HttpStatusError(404, f"there is no node {name}, and none is connected by this name")
        node = self._picture.node(name) or {}
        pods = pods_of_node(self._picture.pods(), name)
        sessions, now = self._journals.history(name), self._now()
        sentence = node_sentence(row, now)
        return NodeStory(sentence, row, machine_facts(node), conditions_of(node), pods, sessions, now)


def fleet_api(client: RestClient, source: PageSource, clock: Clock, about: About) -> FleetApi:
    """Return the answers about the fleet of a cloudcore.

    Args:
        client: its Kubernetes API.
        source: its links and journals.
        clock: for ages, and for the feeds.
        about: this server.
    """
    picture, devices = Picture(clock.now, about.program), DeviceReader(client, clock)
    return FleetApi(
        picture,
        Feeds(picture, client, source, devices, clock),
        PodStories(about.program, client),
        devices,
        source,
        about,
        clock.now,
    )


def json_of(content: object) -> Response:
    """Return an answer in JSON."""
    return json(msgspec.json.encode(content))
