"""The requests of the page of a single node to its server: GET below `/page/v1`.

The node's own socket and database answer it, also without a link to the cloud.
"""

import platform
from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Final

import msgspec

from beehive.clock import Clock
from beehive.http.errors import HttpStatusError
from beehive.http.request import Request
from beehive.http.responses import Response, text
from modules.apimachinery.printing.ages import human_duration
from modules.apimachinery.printing.fields import JsonObject, list_at, map_at, objects_at, text_at, value_at
from modules.cli.rest import RestClient
from modules.insight.fleet.rows import LONGEST, FleetPodRow, NodeRow, pod_row
from modules.insight.fleet.sentences import certificate_words, pods_sentence
from modules.insight.fleet.states import CONNECTED, age_of, own_link, own_link_words
from modules.page.api import About, json_of
from modules.page.nodes import conditions_of
from modules.page.own_devices import OwnDevices
from modules.page.pod_story import PodStories
from modules.page.pods import pods_answer
from modules.page.shells import ClosedDoor, ShellDoor

PODS_PATH: Final = "/pods"
STATE_PATH: Final = "/edgecore/state"
"""Path of the agent's state on the owner's socket."""
_READY: Final = "ready"


class ModuleRow(msgspec.Struct, frozen=True):
    """A module of the agent."""

    name: str
    state: str
    reason: str
    waiting: int
    """Messages in its inbox."""
    restarts: int


class OwnNode(msgspec.Struct, frozen=True):
    """The answer of `GET /page/v1/nodes/NAME` on the node."""

    name: str
    sentence: str
    link: str
    """`connected`, `away` or, without a cloud, `never`."""
    facts: Mapping[str, str]
    modules: Sequence[ModuleRow]
    """Modules that are not ready first."""
    conditions: Sequence[Mapping[str, str]]
    pods: Sequence[FleetPodRow]
    now: float


class NodeApi:
    """The answers to the page's questions about one node; whoever asks has been checked (`PageApi`).

    Nothing is kept between two questions, and nothing is asked while nobody looks.

    Args:
        client: the owner's socket of the node.
        devices: of the node.
        about: this server; names the node.
        clock: for ages.
        door: leads to containers; None: the page is read only.
    """

    def __init__(
        self, client: RestClient, devices: OwnDevices, about: About, clock: Clock, door: ShellDoor | None = None
    ) -> None:
        self.door: ShellDoor = door or ClosedDoor(f"{about.program} page --allow exec")
        self._client = client
        self._devices = devices
        self._about = about
        self._clock = clock
        self._stories = PodStories(about.program, client)
        self._row = NodeRow(about.node, CONNECTED)
        """The node as its devices and pods see it: here, whatever its link is."""

    def close(self) -> None:
        """Do nothing: nothing is held."""

    def serve(self, request: Request, parts: Sequence[str]) -> Response:
        """Return the answer to a GET.

        Args:
            request: the request.
            parts: of its path, below `/page/v1`.

        Raises:
            HttpStatusError: there is no such path, node or device.
            KubectlError: edgecore refuses, or does not answer.
            BeehiveError: the node's database cannot be read.
        """
        match parts:
            case ("me",):
                return json_of(self._about)
            case ("nodes", self._about.node):
                return json_of(own_node(self._client.get(STATE_PATH), self._pods(), self._clock.now()))
            case ("pods",):
                return json_of(pods_answer(self._pods(), [self._row], request.first("q")), now=self._clock.now())
            case ("explain", namespace, name):
                return json_of(self._stories.story(namespace, name, self._clock.now(), lambda _: None))
            case ("log", namespace, name, container):
                return text(HTTPStatus.OK, self._stories.log(namespace, name, container))
            case ("devices",):
                return json_of(self._devices.devices(self._row, request.first("q"), self._clock.now()))
            case ("devices", namespace, name):
                return json_of(self._devices.story(namespace, name, self._row, self._clock.now()))
            case ("history", namespace, name, property_name):
                return json_of(self._devices.history(namespace, name, property_name, self._clock.now()))
        raise HttpStatusError(404, f"the page of the node {self._about.node} has no such path")

    def _pods(self) -> list[FleetPodRow]:
        """Return the pods by the path of a kubelet: the node's Kubernetes API is not loaded for it."""
        return [pod_row(each) for each in objects_at(self._client.get(PODS_PATH), "items")]


def own_node(state: JsonObject, pods: Sequence[FleetPodRow], now: float) -> OwnNode:
    """Return the content of the page of a node.

    Args:
        state: of the agent (`/edgecore/state`).
        pods: all pods of the node.
        now: seconds since 1970.
    """
    name = text_at(state, "node")
    modules = [_module(each, map_at(state, "modules").get(each)) for each in map_at(state, "modules")]
    modules.sort(key=lambda each: (each.state == _READY, each.name))
    link = own_link(state)
    sentence = f"{name} {own_link_words(state, now)}; {_begun(pods_sentence(pods, []))}"
    failing = [each.name for each in modules if each.state != _READY]
    if failing:
        verb = "is" if len(failing) == 1 else "are"
        sentence = f"{sentence.removesuffix('.')}; {', '.join(failing)} {verb} not ready."
    ends = certificate_words(_certificate_ends(state), now)
    if ends:
        sentence = f"{sentence.removesuffix('.')}; its certificate {ends}."
    conditions = conditions_of({"status": {"conditions": list_at(state, "conditions")}})
    facts = {key: value[:LONGEST] for key, value in _facts(state, now) if value}
    ordered = sorted(pods, key=lambda each: (not each.is_troubled, each.key))
    return OwnNode(name, sentence, link, facts, modules, conditions, ordered, now)


def _certificate_ends(state: JsonObject) -> float:
    """Return when the node's certificate ends, in seconds since 1970; 0 without one."""
    ends = value_at(state, "link.certificate_ends")
    return float(ends) if isinstance(ends, int | float) else 0.0


def _begun(sentence: str) -> str:
    """Return a sentence as a part of another: "The pod runs." begins with a small letter there."""
    return sentence[:1].lower() + sentence[1:]


def _facts(state: JsonObject, now: float) -> Iterator[tuple[str, str]]:
    """Yield the agent's facts about itself and its link."""
    yield "cloud", text_at(state, "link.server")
    yield "why the last link ended", text_at(state, "link.why")
    failures = value_at(state, "link.failures")
    yield "attempts that failed since", str(failures) if failures else ""
    if value_at(state, "link.replaced_at"):
        yield "replaced", f"{age_of(state, 'link.replaced_at', now)} ago another connection took its name at the cloud"
    held = map_at(state, "held")
    counted = [(kind, value_at(each, "messages")) for kind, each in held.items() if isinstance(each, dict)]
    ends = _certificate_ends(state)
    if ends:
        left = f"ends in {human_duration(int(ends - now))}" if ends > now else "has ended: `edgecore join` gets another"
        yield "certificate", left
    yield "waits for the cloud", ", ".join(f"{number} of {kind}" for kind, number in counted if number) or "nothing"
    yield "asked of the cloud", ", ".join(str(each) for each in list_at(state, "asked"))
    yield "edgecore", f"{text_at(state, 'version')}, started {age_of(state, 'started_at', now)} ago"
    yield "container runtime", text_at(state, "runtime")
    yield "kernel", f"{platform.system()} {platform.release()}, {platform.machine()}"
    yield from ((f"capacity {name}", str(amount)) for name, amount in map_at(state, "capacity").items())


def _module(name: str, report: object) -> ModuleRow:
    found = report if isinstance(report, dict) else {}
    inbox, restarts = found.get("inbox"), found.get("restarts")
    return ModuleRow(
        name,
        text_at(found, "state"),
        text_at(found, "reason")[:LONGEST],
        inbox if isinstance(inbox, int) else 0,
        restarts if isinstance(restarts, int) else 0,
    )
