"""How endpoints are put into slices, from the slices and endpoints alone (reconcileByPortMapping)."""

from typing import Any

import pytest

from modules.apimachinery.kinds import JsonObject
from modules.cloud.controllers.endpoint_slices import Group, SliceOwner, slice_writes

WEB, ADMIN = ("web", 80, "TCP", ""), ("admin", 81, "TCP", "")
LABELS = {"kubernetes.io/service-name": "web"}
SERVICE: JsonObject = {
    "kind": "Service",
    "apiVersion": "v1",
    "metadata": {"name": "web", "namespace": "default", "uid": "u"},
}
Slice = tuple[str, str, str, str]
"""Name, family, names of ports, and endpoints: "a b" or "0-99"."""


def endpoint(name: str) -> JsonObject:
    return {"addresses": [name], "targetRef": {"kind": "Pod", "uid": name}}


def names(text: str) -> list[str]:
    found: list[str] = []
    for part in text.split():
        first, dash, last = part.partition("-")
        found += map(str, range(int(first), int(last) + 1)) if dash else [part]
    return found


def endpoints(text: str) -> list[JsonObject]:
    return list(map(endpoint, names(text)))


def stored(name: str, family: str, ports: str, held: list[JsonObject], **metadata: Any) -> JsonObject:
    given = [
        {"name": port[0], "port": port[1], "protocol": port[2]} for port in (WEB, ADMIN) if port[0] in ports.split()
    ]
    metadata = {"name": name, "namespace": "default", "resourceVersion": "1", "labels": LABELS, **metadata}
    return {"kind": "EndpointSlice", "apiVersion": "discovery.k8s.io/v1", "metadata": metadata, "addressType": family,
            "endpoints": held, "ports": given}  # fmt: skip


def group(family: str, ports: str) -> Group:
    return family, tuple(port for port in (WEB, ADMIN) if port[0] in ports.split()), ""


def written(existing: list[JsonObject], wanted: dict[Group, list[JsonObject]], *families: str) -> list[tuple[Any, ...]]:
    """Return the writes: verb, name, family, ports and addresses."""
    found: list[tuple[Any, ...]] = []
    for write in slice_writes(SliceOwner(SERVICE, LABELS), existing, wanted, families):
        body = write.call.body or {}
        if write.call.verb == "delete":
            found.append(("delete", write.call.name))
            continue
        ports = " ".join(port["name"] for port in body["ports"])
        name = write.call.name or ""
        addresses = " ".join(one["addresses"][0] for one in body["endpoints"])
        found.append((write.call.verb, name, body["addressType"], ports, addresses))
    return found


@pytest.mark.parametrize(
    ("existing", "wanted", "expected"),
    [
        pytest.param([("s", "IPv4", "web", "a b")], [("IPv4", "web", "a b")], [], id="nothing changes"),
        pytest.param(
            [("s", "IPv4", "web", "a")], [("IPv4", "web", "b")], [("update", "s", "IPv4", "web", "b")], id="another pod"
        ),
        pytest.param([("s", "IPv4", "web", "a")], [("IPv4", "admin", "a")], [("update", "s", "IPv4", "admin", "a")],
            id="another port: the slice that is left is used"),
        pytest.param([("s", "IPv4", "web", "a")], [("IPv6", "web", "b")],
            [("create", "", "IPv6", "web", "b"), ("delete", "s")],
            id="another family: the family of a slice never changes"),
        pytest.param([("s", "IPv4", "web", "a")], [("IPv4", "web", "a"), ("IPv6", "web", "b")],
            [("create", "", "IPv6", "web", "b")], id="a second family"),
        pytest.param(
            [("s", "IPv4", "web", "a"), ("t", "IPv4", "web", "b")], [("IPv4", "admin", "a"), ("IPv4", "", "b")],
            [("update", "s", "IPv4", "admin", "a"), ("update", "t", "IPv4", "", "b")],
            id="each slice that is left is used once",
        ),
        pytest.param([("s", "IPv4", "web", "a"), ("t", "IPv4", "web", "b")], [("IPv4", "web", "b")], [("delete", "s")],
            id="an empty slice goes"),
        pytest.param([("s", "IPv4", "web", "0-9"), ("t", "IPv4", "web", "100-189")], [("IPv4", "web", "0-9 100-189 x")],
            [("update", "t", "IPv4", "web", "100-189 x")], id="the fullest slice with room gets a new pod"),
        pytest.param([("s", "IPv4", "web", "0-1"), ("t", "IPv4", "web", "100-102")], [("IPv4", "web", "0 100-101 x")],
            [("update", "s", "IPv4", "web", "0"), ("update", "t", "IPv4", "web", "100-101 x")],
            id="of slices that change anyway, the fullest"),
        pytest.param([("s", "IPv4", "web", "0-97")], [("IPv4", "web", "0-97 a b c")],
            [("create", "", "IPv4", "web", "a b c")], id="no slice is split for pods that do not all fit"),
        pytest.param([("s", "IPv4", "web", "0-98 x")], [("IPv4", "web", "0-98 a b c")],
            [("create", "", "IPv4", "web", "b c"), ("update", "s", "IPv4", "web", "0-98 a")],
            id="at most 100 in a slice"),
        pytest.param([("s", "IPv4", "web", "0-98")], [("IPv4", "web", "0-98 a")],
            [("update", "s", "IPv4", "web", "0-98 a")], id="a slice is filled up to 100"),
    ],
)  # fmt: skip
def test_the_fewest_writes(
    existing: list[Slice], wanted: list[tuple[str, str, str]], expected: list[tuple[str, ...]]
) -> None:
    given = [stored(name, family, ports, endpoints(held)) for name, family, ports, held in existing]
    found = written(given, {group(family, ports): endpoints(held) for family, ports, held in wanted})
    assert found == [(*one[:-1], " ".join(names(one[-1]))) if len(one) > 2 else one for one in expected]


@pytest.mark.parametrize("families", [("IPv4",), ("IPv4", "IPv6")])
def test_each_family_has_a_slice_and_terminating_services_have_none(families: tuple[str, ...]) -> None:
    """A slice with endpoints is not written again while it is being deleted, nor deleted again."""
    gone = stored("s", "IPv4", "web", endpoints("a"), deletionTimestamp="2026-01-01T00:00:00Z")
    wanted = {group("IPv4", "web"): endpoints("a")}
    more = [("create", "", "IPv6", "", "")] if "IPv6" in families else []
    assert written([gone], wanted, *families) == [("create", "", "IPv4", "web", "a"), *more]
    assert written([gone], {}, "IPv4") == [("create", "", "IPv4", "", "")]


@pytest.mark.parametrize(
    "other",
    [{"addresses": ["b"]}, {"hostname": "b"}, {"targetRef": {"kind": "Pod", "uid": "b"}}],
    ids=["address", "host name", "pod"],
)
def test_endpoints_that_differ_in_one_of_them_are_two(other: JsonObject) -> None:
    """Pods in their node's network have its address, all of them; hand-made endpoints may be of no pod."""
    first = {**endpoint("a"), "hostname": "a"}
    second = {**first, **other}
    key = group("IPv4", "web")
    (made,) = slice_writes(SliceOwner(SERVICE, LABELS), [], {key: [first, second]}, ())
    assert (made.call.body or {})["endpoints"] == [first, second]
    both = stored("s", "IPv4", "web", [first, second])
    (left,) = slice_writes(SliceOwner(SERVICE, LABELS), [both], {key: [second]}, ())
    assert (left.call.body or {})["endpoints"] == [second]


def test_labels_of_another_service_or_time_are_written_again() -> None:
    existing = stored("s", "IPv4", "web", endpoints("a"), labels={**LABELS, "old": "1"})
    wanted = {group("IPv4", "web"): endpoints("a")}
    (write,) = slice_writes(SliceOwner(SERVICE, LABELS), [existing], wanted, ())
    assert (write.call.body or {})["metadata"]["labels"] == LABELS
