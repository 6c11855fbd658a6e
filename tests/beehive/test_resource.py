"""Resource strings: every production of the grammar of both sides, and the law that printing undoes parsing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beehive import Form, Resource, ResourceError, ResourceType, Side
from beehive.resource import NULL_NAMESPACE, trim_node, type_of

TOKENS = st.text(st.characters(exclude_characters="/", exclude_categories=["Cs"]), min_size=1, max_size=12) | (
    st.sampled_from(["node", "pod", "membership", "device", "twin", "rule", "ruleendpoint", "task", "null", "detail"])
)
STRINGS = st.lists(TOKENS, min_size=1, max_size=8).map("/".join)
SIDES = st.sampled_from(Side)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("default/pod/nginx", Resource("pod", "default", "nginx")),
        ("default/pod", Resource("pod", "default")),
        ("null/persistentvolume/pv1", Resource("persistentvolume", "null", "pv1")),
        ("default/node/edge-1", Resource("node", "default", "edge-1")),
        ("default/certificatesigningrequest/c", Resource("certificatesigningrequest", "default", "c")),
        ("node/connection", Resource("connection", "node")),
        ("k8s/ca.crt", Resource("ca.crt", "k8s")),
        ("watchapp/sync", Resource("sync", "watchapp")),
        ("ignore/Application/ignore", Resource("Application", "ignore", "ignore")),
        ("membership/detail", Resource("detail", "membership")),
        ("namespace/servicelist/service", Resource("servicelist", "namespace", "service")),
        ("node", Resource("", tail="node", form=Form.NODE)),
        ("twin", Resource("", tail="twin", form=Form.OTHER)),
        ("device/d1/twin/edge_updated", Resource("", tail="device/d1/twin/edge_updated", form=Form.OTHER)),
        ("task/t1/node/n1", Resource("", tail="task/t1/node/n1", form=Form.TASK)),
        (
            "operations.kubeedge.io/v1alpha2/nodeupgradejob/job/node/n1",
            Resource("", tail="operations.kubeedge.io/v1alpha2/nodeupgradejob/job/node/n1", form=Form.TASK),
        ),
    ],
)
def test_the_edge_reads_as_metamanager_s_parse_resource(text: str, wanted: Resource) -> None:
    """Two or three tokens are an object, all else is kept whole (docs/protocol.md, "Resource strings")."""
    assert Resource.parse(text) == wanted
    assert type_of(text, Side.EDGE) == wanted.type


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("node/n1/default/pod/nginx", Resource("pod", "default", "nginx", "n1")),
        ("node/n1/default/podstatus", Resource("podstatus", "default", "", "n1")),
        ("node/n1/null/node/n1", Resource("node", "null", "n1", "n1")),
        ("node/n1/k8s/ca.crt", Resource("ca.crt", "k8s", "", "n1")),
        ("node/nodeid/default/rulestatus/r", Resource("rulestatus", "default", "r", "nodeid")),
        ("node/n1/membership", Resource("membership", node="n1", tail="membership", form=Form.DEVICE)),
        ("node/n1/membership/detail", Resource("membership", node="n1", tail="membership/detail", form=Form.DEVICE)),
        ("node/n1/twin", Resource("twin", node="n1", tail="twin", form=Form.DEVICE)),
        (
            "node/n1/device/d1/twin/cloud_updated",
            Resource("device", node="n1", tail="device/d1/twin/cloud_updated", form=Form.DEVICE),
        ),
        (
            "node/n1/device/ns/d1/twin/edge_updated",
            Resource("device", node="n1", tail="device/ns/d1/twin/edge_updated", form=Form.DEVICE),
        ),
        ("rule/r1", Resource("rule", name="r1", tail="rule/r1", form=Form.RULE)),
        ("ruleendpoint/e1", Resource("ruleendpoint", name="e1", tail="ruleendpoint/e1", form=Form.RULE)),
        ("node/n1", Resource("", tail="node/n1", form=Form.NODE)),
        ("task/t1/node/n1", Resource("", tail="task/t1/node/n1", form=Form.TASK)),
        ("node/n1/bm9kZQ==", Resource("", node="n1", tail="bm9kZQ==", form=Form.OTHER)),
    ],
)
def test_the_cloud_reads_the_node_before_it(text: str, wanted: Resource) -> None:
    """Node, namespace, type, name by position; devices have their type after the node (docs/protocol.md, "Resource
    strings").
    """
    assert Resource.parse(text, Side.CLOUD) == wanted
    assert str(wanted) == text


@pytest.mark.parametrize("text", ["", "/", "a//b", "/a/b", "a/b/", "node//default/pod"])
@pytest.mark.parametrize("side", Side)
def test_empty_tokens_are_errors_and_have_no_type(text: str, side: Side) -> None:
    """The error quotes the string; choosing a handler never raises."""
    with pytest.raises(ResourceError, match="namespace/type"):
        Resource.parse(text, side)
    assert type_of(text, side) == ""


@given(STRINGS, SIDES)
def test_printing_undoes_parsing(text: str, side: Side) -> None:
    """Law: every string without empty tokens comes back as it was, on both sides."""
    assert str(Resource.parse(text, side)) == text


@given(STRINGS, TOKENS)
def test_trimming_undoes_the_prefix(text: str, node: str) -> None:
    """Law: what the cloud puts before an edge resource is what it takes away again."""
    assert trim_node(f"node/{node}/{text}") == text


@given(TOKENS, TOKENS, TOKENS | st.just(""), TOKENS)
def test_a_built_resource_reads_back(kind: str, namespace: str, name: str, node: str) -> None:
    """Law: built, printed and parsed it is the same, on the edge and, with a node, on the cloud."""
    resource = Resource.of(kind, namespace, name)
    assert Resource.parse(str(resource)) == resource
    on_cloud = resource.on_node(node)
    assert trim_node(str(on_cloud)) == str(resource)
    if namespace not in ("membership", "device", "twin"):
        assert Resource.parse(str(on_cloud), Side.CLOUD) == on_cloud


@given(st.text(), SIDES)
def test_any_text_has_a_type_or_none(text: str, side: Side) -> None:
    """Law: routing never raises, whatever a peer sends."""
    assert isinstance(type_of(text, side), str)


@pytest.mark.parametrize("text", ["node", "node/n1", "default/pod/a", "nodes/n1/default/pod", "", "a"])
def test_a_resource_without_a_node_prefix_is_not_trimmed(text: str) -> None:
    """KubeEdge's TrimMessage passes it on unchanged, with a warning."""
    assert trim_node(text) == text


def test_cluster_scoped_objects_go_under_null() -> None:
    """An empty namespace is KubeEdge's stand-in."""
    assert str(Resource.of(ResourceType.NODE, "", "n1")) == "null/node/n1"
    assert NULL_NAMESPACE == "null"


@pytest.mark.parametrize(
    ("kind", "namespace", "name"), [("", "a", "b"), ("p/q", "a", "b"), ("p", "a/b", ""), ("p", "a", "/")]
)
def test_a_resource_is_not_built_of_bad_parts(kind: str, namespace: str, name: str) -> None:
    """A slash in a name would name another object."""
    with pytest.raises(ResourceError):
        Resource.of(kind, namespace, name)
    for node in ("", "a/b"):
        with pytest.raises(ResourceError):
            Resource.of("pod", "default").on_node(node)
