"""Names in URLs: what a client of this project encodes, its server decodes once, whatever characters a name has."""

from pathlib import Path
from urllib.parse import quote

from hypothesis import example, given
from hypothesis import strategies as st

from beehive.http.errors import HttpStatusError
from beehive.http.request import MAX_PART, request_from
from beehive.http.server import RequestHead
from modules.cli.rest import path_of
from modules.cloud.client.call_requests import request_of
from modules.cloud.client.calls import ApiCall
from modules.cloud.router.paths import read_path
from modules.edge.servicebus.method_calls import method_call_of
from modules.processes.common.pod_commands.client import url
from modules.runtimes.docker.client import part
from modules.streams import connect

CHARACTERS = st.one_of(st.sampled_from("+%~ .&=?#;:@aA0-_"), st.characters(exclude_categories=("Cs", "Cc")))
NAMES = st.one_of(
    st.sampled_from(["0.7.0.dev4+g1a2b3c", "%2B", "%252e%252e", "~", "a b", "ö+ä", "日本", "a" * MAX_PART]),
    st.text(CHARACTERS, min_size=1, max_size=40),
).filter(lambda name: name.isprintable() and name not in (".", "..") and "/" not in name and "\\" not in name)


def parts(target: str) -> tuple[str, ...]:
    """The parts of a request's path, as the project's HTTP servers have them."""
    return request_from(RequestHead("GET", target, (), "1.1"), b"").parts


@given(NAMES, NAMES)
def test_names_of_objects_reach_the_api_and_the_nodes_servers(namespace: str, name: str) -> None:
    """From `cloudcore`'s verbs, cloudcore's own client of a cluster, the commands for pods, and to Docker Engine."""
    assert parts(path_of("api", "v1", "namespaces", namespace, "pods", name)) == (
        "api", "v1", "namespaces", namespace, "pods", name,
    )  # fmt: skip
    assert parts(url("exec", namespace, name, query=(("command", name),))) == ("exec", namespace, name)
    assert parts(f"/{part(name)}") == (name,)
    if "%" not in namespace + name:  # which Kubernetes takes in no name
        call = ApiCall(verb="get", api_version="v1", plural="pods", namespace=namespace, name=name)
        assert parts(request_of(call).path)[3::2] == (namespace, name)


@given(NAMES, NAMES)
def test_values_of_queries_reach_the_servers(name: str, value: str) -> None:
    """A plus sign is a plus sign, and no space."""
    head = RequestHead("GET", url("exec", "a", query=((name, value),)), (), "1.1")
    assert request_from(head, b"").query == ((name, value),)


@given(NAMES, NAMES)
def test_names_stay_the_same_through_the_tunnel_to_a_node(namespace: str, name: str) -> None:
    """Also where the frame has them decoded, as Go writes it."""
    target = url("containerLogs", namespace, name, "c", query=(("follow", "true"),))
    sent = connect.encode(connect.StreamRequest(1, target, ()), with_method=True)
    assert parts(connect.decode(sent).target) == ("containerLogs", namespace, name, "c")


@given(NAMES, NAMES, NAMES)
def test_names_stay_the_same_through_the_router(node: str, namespace: str, name: str) -> None:
    """It is decoded to be compared with rules, and encoded for the next server."""
    read = read_path(url(node, namespace, "a", name, query=(("x", "+"),)))
    assert read is not None
    assert (read.node, read.namespace, read.parts) == (node, namespace, ("a", name))
    assert read_path(read.target) == read
    assert parts(read.rest(1)) == (name,)


@given(NAMES, NAMES, NAMES)
@example("d", "p", "1/2")
def test_values_for_devices_reach_the_mapper(device: str, prop: str, value: str) -> None:
    """Through servicebus's paths of methods."""
    target = "/api/v1/devicemethod/" + "/".join(quote(each, safe="") for each in ("ns", device, "set", prop, value))
    assert method_call_of(target) == ("ns", device, prop, value)


@given(st.text(st.sampled_from("%2eEfF5cC./\\0a"), max_size=20))
@example("%2e%2e/%2e%2e")
@example("%252e%252e%252f")
def test_no_part_of_a_path_is_another_directory(path: str) -> None:
    """However often it is encoded."""
    try:
        read = parts(f"/{path}")
    except HttpStatusError:
        return
    below = Path("/a").joinpath("b", *read)
    assert ".." not in below.parts
    assert below.parts[:3] == ("/", "a", "b")
    assert len(below.parts) == 3 + len(read)
