"""The work of each kind of request, beside the bound: its bytes, the values of its objects, and 50,000.

Work is counted in calls of functions, Python's and C's, which are the same on every machine.
"""

import json
import random
import sys
from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

import pytest

from beehive.http.responses import Response, Stream
from modules.apimachinery.conversion import number_of_values
from modules.apimachinery.limits import VALUES
from modules.cloud.client.calls import APPLY, JSON_PATCH, MERGE, STRATEGIC
from tests.modules.cloud.apiextensions.definition import DEFINITIONS
from tests.modules.cloud.apiserver.endpoints.serving import MAPS, PODS, Serving
from tests.modules.cloud.objects import configmap, pod
from tests.support.collector import without_collections

Json = dict[str, Any]

WORST: Final = 40.0
"""Calls for each byte and value."""
GROWTH: Final = 2.4
"""How much more work twice the size may be."""
_THINGS: Final = "/apis/example.org/v1/namespaces/default/things"
_DEPLOYMENTS: Final = "/apis/apps/v1/namespaces/default/deployments"
_SLICES: Final = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
_ROLES: Final = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles"
_QUOTAS: Final = "/api/v1/namespaces/default/resourcequotas"
_TABLE: Final = "application/json;as=Table;v=v1;g=meta.k8s.io"


class Asked(NamedTuple):
    """A request, after which others have prepared what it is about."""

    method: str
    path: str
    body: Any = None
    media: str = "application/json"
    accept: str = ""
    query: Json = {}  # noqa: RUF012 - nobody changes it
    before: tuple[Any, ...] = ()
    """Requests that are not counted; each is one, or a kind's schema."""
    counts: int = 0
    """Values of stored objects that it reads, beside those in the answer."""


def _definition(schema: Json, **more: Any) -> Asked:
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}, **more}
    names = {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"}
    spec = {"group": "example.org", "scope": "Namespaced", "names": names, "versions": [version]}
    body = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "spec": spec}
    return Asked("POST", DEFINITIONS, {**body, "metadata": {"name": "things.example.org"}})


def _thing(**fields: Any) -> Json:
    return {"apiVersion": "example.org/v1", "kind": "Thing", "metadata": {"name": "t"}, **fields}


def _made(schema: Json, body: Json) -> Asked:
    whole = {"type": "object", "properties": {"l": schema}}
    return Asked("POST", _THINGS, body, before=(_definition(whole),))


def _list(item: Json) -> Json:
    return {"type": "array", "items": item}


def _patched(media: str, body: Any, live: Json, **query: str) -> Asked:
    return Asked("PATCH", f"{MAPS}/m", body, media, query=query, before=(Asked("POST", MAPS, live),))


def _keys(size: int, value: str = "v") -> Json:
    return configmap("m", **{f"k{number}": value for number in range(size)})


def _containers(size: int, **more: Any) -> list[Json]:
    return [{"name": f"c{number}", "image": "i", **more} for number in range(size)]


def _env(size: int, value: str = "v") -> list[Json]:
    return [{"name": f"E{number}", "value": value} for number in range(size)]


def _pods(size: int) -> tuple[Asked, ...]:
    labels = {"a": "b"}
    made = (pod(f"p{number}") for number in range(size // 32))
    return tuple(Asked("POST", PODS, {**one, "metadata": {**one["metadata"], "labels": labels}}) for one in made)


def _patched_pod(media: str, spec: Json, **live: Any) -> Asked:
    return Asked("PATCH", f"{PODS}/p", {"spec": spec}, media, before=(Asked("POST", PODS, pod("p", **live)),))


def _applied(size: int) -> Asked:
    """An apply beside other appliers, of which each has set its own fields."""
    each = max(1, size // 8)
    before = [
        Asked("PATCH", f"{MAPS}/m", configmap("m", **{f"a{one}-{key}": "v" for key in range(each)}), APPLY,
              query={"fieldManager": f"m{one}"})
        for one in range(8)
    ]  # fmt: skip
    return Asked("PATCH", f"{MAPS}/m", _keys(size), APPLY, query={"fieldManager": "last"}, before=tuple(before))


_INTEGER: Final = {"type": "integer"}
_REQUESTS: Final[dict[str, Callable[[int], Asked]]] = {
    "create": lambda size: Asked("POST", MAPS, _keys(size)),
    "create in a dry run": lambda size: Asked("POST", MAPS, _keys(size), query={"dryRun": "All"}),
    "create with unknown fields": lambda size: Asked(
        "POST", MAPS, {**_keys(1), "x": {f"f{number}": [number] for number in range(size)}}
    ),
    "create in YAML": lambda size: Asked(
        "POST", MAPS, b"metadata: {name: m}\ndata:\n" + b"".join(b"  k%d: v\n" % each for each in range(size)),
        "application/yaml",
    ),
    "create in YAML with aliases": lambda size: Asked(
        "POST", _THINGS,
        b"apiVersion: example.org/v1\nkind: Thing\nmetadata: {name: t}\na: &a [" + b"1," * 50 + b"]\nl: ["
        + b"*a," * (size // 50) + b"]\n",
        "application/yaml", before=(_definition({"type": "object", "x-kubernetes-preserve-unknown-fields": True}),),
    ),
    "create a pod of many containers": lambda size: Asked("POST", PODS, pod("p", containers=_containers(size // 16))),
    "create a pod of many variables": lambda size: Asked(
        "POST", PODS, pod("p", containers=_containers(1, env=_env(size // 2)))
    ),
    "create a Deployment": lambda size: Asked(
        "POST", _DEPLOYMENTS,
        {"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {
            "metadata": {"labels": {"a": "b"}}, "spec": {"containers": _containers(size // 16)}}}},
    ),
    "create an EndpointSlice": lambda size: Asked(
        "POST", _SLICES,
        {"metadata": {"name": "e"}, "addressType": "IPv4", "ports": [],
         "endpoints": [{"addresses": [f"10.0.{each >> 8}.{each & 255}"]} for each in range(size // 8)]},
    ),
    "create a Role": lambda size: Asked(
        "POST", _ROLES,
        {"metadata": {"name": "r"}, "rules": [
            {"apiGroups": [""], "resources": [f"r{each}"], "verbs": ["get"]} for each in range(size // 8)]},
    ),
    "create within quotas": lambda size: Asked(
        "POST", PODS, pod("p"),
        before=tuple(Asked("POST", _QUOTAS, {"metadata": {"name": f"q{each}"}, "spec": {"hard": {"pods": "9"}}})
                     for each in range(size // 64)),
        counts=12 * (size // 64),
    ),
    "update": lambda size: Asked("PUT", f"{MAPS}/m", _keys(size, "w"), before=(Asked("POST", MAPS, _keys(size)),)),
    "merge patch": lambda size: _patched(MERGE, {"data": {f"n{each}": "v" for each in range(size)}}, _keys(size)),
    "strategic merge patch": lambda size: _patched(
        STRATEGIC, {"data": {f"k{each}": None for each in range(size)}}, _keys(size)
    ),
    "strategic merge patch of lists": lambda size: _patched_pod(
        STRATEGIC, {"containers": [{"name": "c0", "env": _env(size // 4, "w")}]},
        containers=_containers(1, env=_env(size // 4)),
    ),
    "strategic merge patch with an order": lambda size: _patched_pod(
        STRATEGIC,
        {"$setElementOrder/containers": [{"name": f"c{each}"} for each in reversed(range(size // 32))],
         "containers": _containers(size // 32)[::-1]},
        containers=_containers(size // 32),
    ),
    "JSON patch": lambda size: _patched(
        JSON_PATCH, [{"op": "add", "path": f"/data/n{each}", "value": "v"} for each in range(size // 8)], _keys(size)
    ),
    "JSON patch of copies": lambda size: _patched(
        JSON_PATCH, [{"op": "copy", "from": "/data", "path": f"/x{each}"} for each in range(4)], _keys(size // 4)
    ),
    "JSON patch of moves": lambda size: _patched(
        JSON_PATCH, [{"op": "move", "from": "/data", "path": "/x"}, {"op": "move", "from": "/x", "path": "/data"}] * 4,
        _keys(size),
    ),
    "JSON patch of tests": lambda size: _patched(
        JSON_PATCH, [{"op": "test", "path": "/data/k0", "value": "v"}] * (size // 4), _keys(1)
    ),
    "apply": _applied,
    "apply of a list": lambda size: Asked(
        "PATCH", f"{PODS}/p", pod("p", containers=_containers(size // 32)), APPLY,
        query={"fieldManager": "m", "force": "true"},
        before=(Asked("POST", PODS, pod("p", containers=_containers(size // 32)), query={"fieldManager": "n"}),),
    ),
    "a definition": lambda size: _definition(
        {"type": "object", "properties": {f"p{each}": {**_INTEGER, "default": 1} for each in range(size // 4)}}
    ),
    "defaults of a definition": lambda size: _definition(
        {"type": "object", "properties": {"l": {**_list(_INTEGER), "default": list(range(size))}}}
    ),
    "an object of many defaults": lambda size: _made(
        _list({"type": "object", "properties": {"x": {**_list(_INTEGER), "default": list(range(size // 8))}}}),
        _thing(l=[{}] * 8),
    ),
    "an object of too many defaults": lambda size: _made(
        _list({"type": "object", "properties": {"x": {**_list(_INTEGER), "default": list(range(size))}}}),
        _thing(l=[{}] * size),
    ),
    "an object whose kind has many fields": lambda size: _made(
        _list({"type": "object", "properties": {f"p{each}": _INTEGER for each in range(1000)}}), _thing(l=[{}] * size)
    ),
    "an object of many alternatives": lambda size: _made(
        _list({**_INTEGER, "anyOf": [{"minimum": each} for each in range(1000)]}), _thing(l=[0] * size)
    ),
    "an object of enumerations": lambda size: _made(
        _list({**_INTEGER, "enum": list(range(1000))}), _thing(l=[999] * size)
    ),
    "an object of required members": lambda size: _made(
        _list({"type": "object", "required": [f"p{each}" for each in range(1000)]}), _thing(l=[{}] * size)
    ),
    "an object of sets": lambda size: _made(
        {**_list(_INTEGER), "x-kubernetes-list-type": "set"}, _thing(l=list(range(size)))
    ),
    "list": lambda size: Asked("GET", PODS, before=_pods(size)),
    "table": lambda size: Asked("GET", PODS, accept=_TABLE, before=_pods(size)),
    "selectors": lambda size: Asked(
        "GET", PODS, query={"labelSelector": ",".join(f"!k{each}" for each in range(250))}, before=_pods(size)
    ),
    "deletion of a collection": lambda size: Asked("DELETE", PODS, before=_pods(size)),
}  # fmt: skip


class Cost(NamedTuple):
    """What a request has cost."""

    calls: int
    bound: int
    status: int

    @property
    def ratio(self) -> float:
        """Calls for each byte and value of the bound."""
        return self.calls / self.bound


def _cost(kind: str, size: int) -> Cost:
    asked = _REQUESTS[kind](size)
    serving = Serving()
    for each in asked.before:
        made = serving.ask(*each[:5], **each.query)
        assert made.status in (200, 201), made.body[:300]
    body = (
        asked.body if isinstance(asked.body, bytes) else b"" if asked.body is None else json.dumps(asked.body).encode()
    )
    calls, answer = _counted(
        partial(serving.reply, asked.method, asked.path, body, asked.media, asked.accept, **asked.query)
    )
    status, text = (answer.status, answer.body) if isinstance(answer, Response) else (200, b"{}")
    values = number_of_values(json.loads(text)) + asked.counts
    if isinstance(answer, Stream) or kind in ("list", "table", "selectors", "deletion of a collection"):
        values += sum(map(number_of_values, map(serving.cluster.storage.get, serving.cluster.storage)))
    return Cost(calls, len(body) + len(urlencode(asked.query)) + values + VALUES, status)


def _counted(ask: Callable[[], Any]) -> tuple[int, Any]:
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    with without_collections():
        sys.setprofile(count)
        try:
            answer = ask()
        finally:
            sys.setprofile(before)
    return calls, answer


@pytest.mark.parametrize("kind", _REQUESTS)
def test_a_request_costs_no_more_than_its_bytes_and_values(kind: str) -> None:
    size = random.Random(kind).randrange(3000, 5000)  # noqa: S311 - of a test
    cost = _cost(kind, size)
    assert cost.ratio <= WORST, cost
    assert cost.status in (200, 201, 413, 422), cost


def _listed(query: Json, pods: int) -> int:
    """Return the calls of a list of so many pods, that is not the first."""
    serving = Serving()
    for each in _pods(32 * pods):
        serving.ask(*each[:5])
    ask = partial(serving.reply, "GET", PODS, None, **query)
    ask()
    calls, answer = _counted(ask)
    assert not isinstance(answer, Response) or answer.status == 200, answer
    return calls


@pytest.mark.parametrize(
    ("parameter", "condition"),
    [
        ("labelSelector", "!k{}"),
        ("labelSelector", "k{}!=v"),
        ("labelSelector", "a!=v{}"),
        ("labelSelector", "a in (b,c{})"),
        ("labelSelector", "a"),
        ("fieldSelector", "metadata.name!=v{}"),
        ("fieldSelector", "spec.nodeName=n1"),
    ],
)
def test_many_conditions_cost_no_more_for_each_object_than_one(parameter: str, condition: str) -> None:
    """256 conditions on 10,000 objects held the API server for half a second."""
    one, many = (
        [_listed({parameter: ",".join(condition.format(each) for each in range(count))}, pods) for pods in (10, 60)]
        for count in (1, 250)
    )
    assert 0 < many[1] - many[0] <= GROWTH * (one[1] - one[0]), (one, many)


@pytest.mark.parametrize("kind", _REQUESTS)
def test_twice_the_size_is_twice_the_work(kind: str) -> None:
    one, other = (_cost(kind, size) for size in (800, 1600))
    assert other.calls <= GROWTH * one.calls, (one, other)
