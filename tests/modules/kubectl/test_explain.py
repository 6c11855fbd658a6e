"""`explain` against a real cloudcore, and what the real kubectl makes of the same schemas."""

from typing import Any

import pytest

from modules.cli.errors import KubectlError
from modules.kubectl.discovery import ApiResource
from modules.kubectl.explain import Schemas
from tests.modules.cloud.apiextensions.definition import definition
from tests.modules.kubectl.cloud import Cloud
from tests.modules.kubectl.fixed_server import found_kubectl
from tests.modules.kubectl.relay import tcp_address_of

POD = ApiResource("pods", "pod", "Pod")


def fields(text: str) -> list[str]:
    """The fields in an explanation, with their types."""
    lines = text.splitlines()
    rest = lines[lines.index("FIELDS:") + 1 :]
    return [line for line in rest if "<" in line and "<no description>" not in line]


def test_the_fields_of_a_kind(cloud: Cloud) -> None:
    done = cloud.run("explain", "pod")
    assert done.lines[:2] == ["KIND:       Pod", "VERSION:    v1"]
    assert "https://kubernetes.io/docs/reference/kubernetes-api/" in done.out
    assert fields(done.out)[2:] == ["  metadata\t<ObjectMeta>", "  spec\t<PodSpec>", "  status\t<PodStatus>"]
    assert cloud.run("explain", "leases").lines[0] == "GROUP:      coordination.k8s.io"


def test_a_field_of_a_kind(cloud: Cloud) -> None:
    done = cloud.run("explain", "po.spec.containers.env")
    assert "FIELD: env <[]EnvVar>" in done.lines
    assert fields(done.out) == ["  name\t<string>", "  value\t<string>", "  valueFrom\t<EnvVarSource>"]
    assert "FIELD: labels <map[string]string>" in cloud.run("explain", "pod.metadata.labels").lines
    whole = fields(cloud.run("explain", "pod", "--recursive").out)
    assert "        timeoutSeconds\t<integer>" in whole


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("pod.spec.nope",), 'field "nope" does not exist'),
        (("pod.spec.nodeName.x",), 'field "x" does not exist'),
        (("podz",), "doesn't have a resource type"),
        ((), "You must specify the type of resource to explain"),
        (("pod", "--api-version=v2"), "Pod is served in v1 only"),
    ],
)
def test_what_cannot_be_explained_is_one_line(empty_cloud: Cloud, words: tuple[str, ...], why: str) -> None:
    done = empty_cloud.run("explain", *words)
    assert (done.status, why in done.err, len(done.err.splitlines())) == (1, True, 1)


@pytest.mark.parametrize("word", ["pod", "pod.spec.containers.livenessProbe", "cm", "node.status", "lease.spec", "csr"])
def test_the_fields_equal_the_real_kubectls(empty_cloud: Cloud, word: str) -> None:
    with tcp_address_of(empty_cloud.socket) as port, found_kubectl(port) as kubectl:
        for options in ((), ("--recursive",)):
            assert fields(kubectl.run("explain", word, *options)) == fields(
                empty_cloud.run("explain", word, *options).out
            )


def said(text: str) -> list[list[str]]:
    """The words of the lines of an explanation that say something."""
    silent = ("", "<no description>", "<empty>")
    return [line.split() for line in text.splitlines() if line.strip() not in silent and "kubernetes.io" not in line]


def test_descriptions_of_custom_kinds_equal_the_real_kubectls(cloud: Cloud) -> None:
    """As their definitions have them, with what is required and what may be chosen, in lines of the same length."""
    wanted = definition()
    spec = wanted["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    spec["description"] = "What is wanted of it.\n\nThe second paragraph " + "goes on and " * 20 + "ends."
    spec["properties"]["rate"]["description"] = "Measurements in a second, " * 8
    cloud.make(wanted)
    assert "    How it is spoken to." in cloud.run("explain", "device.spec").lines
    with tcp_address_of(cloud.socket) as port, found_kubectl(port) as kubectl:
        for words in ("device", "device --recursive", "device.spec", "device.spec.protocol", "device.spec --recursive"):
            ours = cloud.run("explain", *words.split()).out
            assert said(ours) == said(kubectl.run("explain", *words.split())), words


def _schemas(**types: Any) -> Schemas:
    kind = {"x-kubernetes-group-version-kind": [{"group": "", "version": "v1", "kind": "Pod"}]}
    pod = {"properties": {"a": {"$ref": "#/components/schemas/A"}}} | kind
    return Schemas({"components": {"schemas": {"Pod": pod, **types}}})


def test_a_type_within_itself_ends() -> None:
    schemas = _schemas(A={"properties": {"a": {"type": "array", "items": {"$ref": "#/components/schemas/A"}}}})
    assert schemas.explained(POD, ["a"])[-1] == "  a\t<[]A>"
    assert 10 < len(schemas.explained(POD, ["a"], recursive=True)) < 100
    both = {name: {"$ref": "#/components/schemas/A"} for name in "ab"}
    assert len(_schemas(A={"properties": both}).explained(POD, [], recursive=True)) < 21_000
    assert _schemas(A={"$ref": "#/components/schemas/A"}).explained(POD, ["a"])


@pytest.mark.parametrize("document", [{}, {"components": []}, {"components": {"schemas": {"Pod": 1}}}])
def test_a_server_without_schemas_is_not_a_server_without_fields(document: Any) -> None:
    with pytest.raises(KubectlError, match="no schema of Pod"):
        Schemas(document).explained(POD, [])
