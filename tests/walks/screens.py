"""What each screen says of an object, as comparable facts: where two go on differing, one of them is wrong."""

from __future__ import annotations

import json
import re
import urllib.request
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from tests.walks.world import Program, World

_SECONDS: Final = 30.0
_GAUGE: Final = re.compile(r"^(\w+)(?:\{[^}]*\})? (\S+)$", re.MULTILINE)
_MOST_PODS: Final = 4


class Fact(NamedTuple):
    """What a screen says of an object."""

    about: str
    """The object and the question, such as `node n1: is Ready`."""
    screen: str
    says: str


@dataclass(frozen=True)
class Contradiction:
    """Screens that answer one question in several ways."""

    about: str
    answers: Mapping[str, tuple[str, ...]]
    """The screens of each answer."""

    def __str__(self) -> str:
        said = "; ".join(f"{' and '.join(screens)}: {answer}" for answer, screens in sorted(self.answers.items()))
        return f"{self.about}: {said}"


def contradictions(facts: Iterable[Fact]) -> list[Contradiction]:
    """Return what screens say differently, in the order of the objects."""
    told: dict[str, dict[str, dict[str, None]]] = {}
    for fact in facts:
        told.setdefault(fact.about, {}).setdefault(fact.says, {})[fact.screen] = None
    return [
        Contradiction(about, {says: tuple(screens) for says, screens in answers.items()})
        for about, answers in sorted(told.items())
        if len(answers) > 1
    ]


class Page:
    """The page of a program, as a browser reads it. A context manager.

    Args:
        world: the installation.
        program: `cloudcore` or `edgecore`.
        node: of an edgecore.
    """

    def __init__(self, world: World, program: str, node: int = 0) -> None:
        self._world, self._name, self._node = world, program, node
        self._program: Program | None = None
        self._origin = self._key = ""

    def __enter__(self) -> Self:
        program = self._world.begin(self._name, "page", node=self._node)
        self._world.until(lambda: "/page/#" in program.text() or not program.runs, "the command page prints an address")
        self._program = program
        origin, found, rest = program.text().partition("/page/#")
        if found:
            self._origin = origin.split()[-1]
            body = json.dumps({"token": rest.split()[0]}).encode()
            self._key = str(json.loads(self._ask("session", body))["key"])
        return self

    def __exit__(self, *_error: object) -> None:
        if self._program is not None:
            self._program.end()

    def get(self, path: str) -> Any:
        """What a path below `/page/v1` answers; None without an answer."""
        try:
            return json.loads(self._ask(path))
        except (OSError, ValueError):
            return None

    def _ask(self, path: str, body: bytes | None = None) -> bytes:
        headers = {"Origin": self._origin, "X-Edgecore-Page": "1", "Content-Type": "application/json"}
        headers |= {"Authorization": f"Bearer {self._key}"} if self._key else {}
        asked = urllib.request.Request(f"{self._origin}/page/v1/{path}", body, headers)  # noqa: S310 - our own
        with urllib.request.urlopen(asked, timeout=_SECONDS) as answer:  # noqa: S310
            return bytes(answer.read())


def of_cloud(world: World, page: Page) -> Iterator[Fact]:
    """Yield what the screens of the cloud say."""
    nodes = _items(world.cloudcore("get", "nodes", "-o", "json").json)
    connected = {each["node"] for each in world.cloudcore("nodes", "--json").json or []}
    shown = {each["name"]: each for each in (page.get("changes?since=0") or {}).get("set", [])}
    ready = 0
    for name, node in nodes.items():
        is_ready = _condition(node, "Ready") == "True"
        ready += is_ready
        yield Fact(f"node {name}: is well", "cloudcore get", _yes(is_ready))
        yield Fact(f"node {name}: version", "cloudcore get", _version(node["status"]["nodeInfo"]["kubeletVersion"]))
        yield Fact(f"node {name}: is well", "cloudcore nodes", _yes(name in connected))
        if name in shown:
            yield Fact(f"node {name}: is well", "cloudcore page", _yes(shown[name]["state"] == "connected"))
            yield Fact(f"node {name}: version", "cloudcore page", _version(shown[name]["version"]))
        described = world.cloudcore("describe", "node", name).out
        if found := re.search(r"^  Ready +(\w+)", described, re.MULTILINE):
            yield Fact(f"node {name}: is well", "cloudcore describe", _yes(found[1] == "True"))
    yield Fact("number of nodes that are Ready", "cloudcore get", str(ready))
    for check in world.cloudcore("doctor", "--json").json or []:
        if check["check"] == "nodes" and (counted := re.match(r"(\d+) of \d+ (?:is|are) ready", check["text"])):
            yield Fact("number of nodes that are Ready", "cloudcore doctor", counted[1])
    metrics = gauges(world.cloudcore("metrics").out)
    yield Fact("number of connected nodes", "cloudcore nodes", str(len(connected)))
    if "cloudcore_connected_nodes" in metrics:
        yield Fact("number of connected nodes", "cloudcore metrics", f"{metrics['cloudcore_connected_nodes']:.0f}")
    pods = _items(world.cloudcore("get", "pods", "-A", "-o", "json").json)
    yield from _of_pods("cloudcore", pods, _shown(page))
    for name, pod in _few(pods):
        yield from _why(world.cloudcore("why", "pod", name, "-o", "json").json, name, pod, "cloudcore")


def of_node(world: World, number: int, page: Page) -> Iterator[Fact]:
    """Yield what the screens of a node say."""
    node, screen = world.nodes[number], f"edgecore on {world.nodes[number].name}"
    about = f"node {node.name}: is well"
    checks = world.edgecore("doctor", "--json", node=number).json
    metrics = gauges(world.edgecore("metrics", node=number).out)
    if checks is not None:
        levels = {each["check"]: each["level"] for each in checks}
        yield Fact(about, f"{screen}: doctor, link", _yes(levels.get("link") == "ok"))
    yield Fact(about, f"{screen}: metrics", _yes(metrics.get("edgehub_connected") == 1))
    story = page.get(f"nodes/{node.name}") or {}
    if story:
        yield Fact(about, f"{screen}: page", _yes(story["link"] == "connected"))
    pods = _items(world.edgecore("get", "pods", "-A", "-o", "json", node=number).json)
    yield from _of_pods(screen, pods, _shown(page))
    for name, pod in _few(pods):
        yield from _why(world.edgecore("why", "pod", name, "-o", "json", node=number).json, name, pod, screen)
    version = world.edgecore("version", node=number).out.split()
    yield Fact(f"node {node.name}: version", f"{screen}: version", version[1] if version else "")


def _shown(page: Page) -> list[Mapping[str, Any]]:
    """Return the pods that a page shows: those that do not run, by groups, and the others."""
    answer = page.get("pods") or {"groups": [], "found": []}
    return [*(pod for group in answer["groups"] for pod in group["pods"]), *answer["found"]]


def _of_pods(screen: str, pods: Mapping[str, Mapping[str, Any]], shown: Sequence[Mapping[str, Any]]) -> Iterator[Fact]:
    for name, pod in pods.items():
        status = pod.get("status", {})
        containers = status.get("containerStatuses", [])
        yield Fact(f"pod {name}: is there", f"{screen} get", "yes")
        yield Fact(f"pod {name}: phase", f"{screen} get", str(status.get("phase")))
        yield Fact(f"pod {name}: is ready", f"{screen} get", _yes(_condition(pod, "Ready") == "True"))
        yield Fact(f"pod {name}: node", f"{screen} get", str(pod["spec"].get("nodeName")))
        yield Fact(f"pod {name}: address", f"{screen} get", str(status.get("podIP")))
        yield Fact(f"pod {name}: restarts", f"{screen} get", str(sum(each["restartCount"] for each in containers)))
        yield Fact(f"pod {name}: image", f"{screen} get", str(pod["spec"]["containers"][0].get("image")))
    there = {f"{each['namespace']}/{each['name']}": each for each in shown}
    for name in pods.keys() | there.keys():
        yield Fact(f"pod {name}: is there", f"{screen} page", _yes(name in there))
        yield Fact(f"pod {name}: is there", f"{screen} get", _yes(name in pods))
    for name, row in there.items():
        ready, _, count = str(row["ready"]).partition("/")
        yield Fact(f"pod {name}: is ready", f"{screen} page", _yes(ready == count and count not in ("", "0")))
        yield Fact(f"pod {name}: node", f"{screen} page", str(row["node"]))
        yield Fact(f"pod {name}: image", f"{screen} page", str(row["image"]))


def _why(answer: Any, name: str, pod: Mapping[str, Any], screen: str) -> Iterator[Fact]:
    if answer is not None and answer["state"] != "unknown":
        yield Fact(f"pod {name}: is ready", f"{screen} why", _yes(answer["state"] == "runs"))
        if pod["spec"].get("nodeName"):
            where = re.search(r" on ([\w.-]+)", answer["sentence"])
            yield Fact(f"pod {name}: node", f"{screen} why", where[1] if where else pod["spec"]["nodeName"])


def _few(pods: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the pods of the namespace default that are asked for one by one, each by its whole name."""
    yield from [each for each in pods.items() if each[1].get("status", {}).get("phase") == "Running"][:_MOST_PODS]


def gauges(text: str) -> dict[str, float]:
    """Return the sums of metrics by their names."""
    sums: dict[str, float] = {}
    for name, value in _GAUGE.findall(text):
        sums[name] = sums.get(name, 0.0) + float(value)
    return sums


def _items(answer: Any) -> dict[str, Mapping[str, Any]]:
    """Return the objects of a list by name, and by namespace where they have one."""
    items = (answer or {}).get("items", [])
    return {
        "/".join(filter(None, (each["metadata"].get("namespace"), each["metadata"]["name"]))): each for each in items
    }


def _condition(obj: Mapping[str, Any], kind: str) -> str:
    conditions = obj.get("status", {}).get("conditions", [])
    return next((str(each["status"]) for each in conditions if each["type"] == kind), "none")


def _version(text: str) -> str:
    """Return the version of edgecore that a kubelet's version has in it."""
    return text.rpartition("-edgecore-")[2]


def _yes(value: object) -> str:
    return "yes" if value else "no"
