"""What older kubectls, curl and others ask of the API: deprecated paths, OpenAPI v2, YAML, and what is not served."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
import yaml

from beehive.http.http_server import HttpServer
from beehive.http.listening import listen_tcp
from beehive.http.responses import Response, Stream
from modules.cloud.apiserver.endpoints import yaml_answers
from modules.cloud.apiserver.endpoints.requests import manager_of_agent
from modules.cloud.apiserver.endpoints.yaml_answers import yaml_of
from tests.modules.cloud.apiextensions.definition import DEFINITIONS, DEVICES, definition, device
from tests.modules.cloud.apiserver.endpoints.serving import MAPS, PODS, Serving, Watcher
from tests.modules.cloud.apiserver.endpoints.serving import read as parsed
from tests.support.patience import PATIENCE

OPEN = "x-kubernetes-preserve-unknown-fields"
V2 = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
TEXTS = (
    *("", " ", "y", "No", "null", "1e3", "0x1f", "1_000", "1:30", "~", "a: b", "- a", "#a", "é", "\x07", "a\tb\n"),
    *("\n", "|", "  indented\nlines", "ends \nso", "😀\n😀", "2026-11-22", "=", "<<", "\u2028\n", "a.b/os", "{a", "&a"),
    *("\x85\n", "%", "@", "`", "'", '"', "\\", "a\\\nb", "\r\n", "true", "?", "-", ":", "*a", "!a"),
)
SDK = Path("/usr/lib/google-cloud-sdk/bin")


def config_map(name: str, **data: str) -> dict[str, Any]:
    """A ConfigMap."""
    return {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": name}, "data": data}


@pytest.mark.parametrize(
    "path",
    ["/api/v1/watch/configmaps", "/api/v1/watch/namespaces/default/configmaps",
     "/api/v1/watch/namespaces/default/configmaps/a"],
    ids=["all", "namespace", "name"],
)  # fmt: skip
def test_deprecated_paths_of_watches(api: Serving, path: str) -> None:
    """They equal today's paths with `watch=true`, also in a group; other methods have no such path."""
    api.ask("POST", MAPS, config_map("a"))
    events = api.watch(path, Watcher(lambda: api.ask("DELETE", f"{MAPS}/a")))
    assert events == [("ADDED", "a"), ("DELETED", "a")]
    assert api.watch("/apis/coordination.k8s.io/v1/watch/leases", Watcher()) == []
    assert [api.ask("POST", path, config_map("b")).status, api.ask("GET", "/api/v1/watch").status] == [404, 404]


def test_a_path_of_a_watch_is_read_once_whatever_the_form_of_the_answer(api: Serving) -> None:
    """In YAML it was read twice: it led to another resource than the one that the authorizer had seen."""
    path = "/api/v1/watch/watch/namespaces/default/configmaps"
    assert [api.ask("GET", path, accept=f"application/{form}").status for form in ("json", "yaml")] == [404, 404]


def test_openapi_v2(api: Serving) -> None:
    """The definitions in JSON, with references among themselves; in protobuf, which kubectl 1.28 wants before it writes
    anything, only what a document must have.
    """
    document = json.loads(api.ask("GET", "/openapi/v2").body)
    pod = document["definitions"]["io.k8s.api.v1.Pod"]
    reference = pod["properties"]["spec"]["$ref"]
    assert document["definitions"][reference.removeprefix("#/definitions/")]["properties"]["hostNetwork"]
    reply = api.ask("GET", "/openapi/v2", accept=V2)
    assert reply.body == b"\x0a\x032.0\x12\x19\x0a\x0aKubernetes\x12\x0bunversioned"
    assert reply.content_type == V2.replace("@", ".")


def test_openapi_v2_has_only_what_v2_knows(api: Serving) -> None:
    """Also of custom resources; a property or a part of a default keeps such a name."""
    crd = definition()
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["allOf"] = {"type": "object", "default": {"oneOf": []}, OPEN: True}
    api.ask("POST", DEFINITIONS, crd)
    definitions = json.loads(api.ask("GET", "/openapi/v2").body)["definitions"]
    assert definitions["io.example.devices.v1.Device"]["properties"]["allOf"]["default"] == {"oneOf": []}
    assert {word for each in definitions.values() for word in words(each)} == {
        *("$ref", "additionalProperties", "default", "description", "enum", "format", "items", "minimum", "properties"),
        *("required", "type"),
    }


def words(schema: Any) -> Iterator[str]:
    """Yield the words of a schema and those within it, without extensions."""
    yield from (word for word in schema if not word.startswith("x-"))
    for each in schema.get("properties", {}).values():
        yield from words(each)
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), dict):
            yield from words(schema[name])


def test_openapi_v3_declares_the_variables_of_its_paths_and_answers(api: Serving) -> None:
    """What OpenAPI demands, and generators of clients."""
    found = 0
    for entry in json.loads(api.ask("GET", "/openapi/v3").body)["paths"].values():
        for path, of in json.loads(api.ask("GET", entry["serverRelativeURL"]).body)["paths"].items():
            declared = {one["name"] for one in of["parameters"] if one["in"] == "path" and one["required"]}
            assert declared == set(re.findall(r"{(\w+)}", path))
            assert (
                of["put"]["responses"]["200"]["description"] == of["patch"]["responses"]["200"]["description"] == "OK"
            )
            found += 1
    assert found > 40


def test_answers_in_yaml(api: Serving) -> None:
    """Objects, lists, tables and errors; logs and the like stay as they are."""
    made = api.ask("POST", MAPS, config_map("a", b="1", c="two\nlines\n"), accept="application/yaml")
    assert (made.status, made.content_type) == (201, "application/yaml")
    assert yaml.safe_load(made.body)["data"] == {"b": "1", "c": "two\nlines\n"}
    assert b"  c: |\n    two\n    lines\n" in made.body
    assert [each["metadata"]["name"] for each in yaml.safe_load(read(api, MAPS).body)["items"]] == ["a"]
    assert yaml.safe_load(read(api, MAPS, ";as=Table;v=v1;g=meta.k8s.io").body)["kind"] == "Table"
    missing = read(api, f"{MAPS}/none")
    assert (missing.status, yaml.safe_load(missing.body)["reason"]) == (404, "NotFound")
    assert read(api, "/healthz").body == b"ok"


def read(api: Serving, path: str, form: str = "", **query: str) -> Response:
    """A GET for YAML."""
    return api.ask("GET", path, accept=f"application/yaml{form}, application/json", **query)


@pytest.mark.parametrize(
    ("agent", "query", "is_indented"),
    [("curl/8.5", {}, True), ("curl/8.5", {"pretty": "false"}, False), ("kubectl/v1.32", {}, False),
     ("kubectl/v1.32", {"pretty": "true"}, True), ("", {}, False)],
)  # fmt: skip
def test_answers_for_people_are_indented(api: Serving, agent: str, query: dict[str, str], is_indented: bool) -> None:
    """As by kube-apiserver: `?pretty`, or a program that people read answers with; refusals, too."""
    api.ask("POST", MAPS, config_map("a"))
    for path in (f"{MAPS}/a", f"{MAPS}/b", "/apis"):
        target = f"{path}?{urlencode(query)}"
        reply = api.service.serve(parsed(f"GET {target} HTTP/1.1\r\nHost: x\r\nUser-Agent: {agent}\r\n\r\n".encode()))
        assert isinstance(reply, Response)
        assert (b'\n  "kind": "' in reply.body) is is_indented
        assert json.loads(reply.body)["kind"]


def test_values_without_a_form_in_yaml_are_refused(api: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    """406, in JSON, with what to accept; JSON is sent to who names it first."""
    api.ask("POST", MAPS, config_map("a"))
    refused = read(api, MAPS, watch="true")
    assert (refused.status, json.loads(refused.body)["reason"]) == (406, "NotAcceptable")
    monkeypatch.setattr(yaml_answers, "MOST_BYTES", 100)
    assert "limit" in json.loads(read(api, MAPS).body)["message"]
    both = api.ask("GET", MAPS, accept="application/vnd.kubernetes.protobuf, application/json, application/yaml")
    assert both.content_type == "application/json"


def test_a_text_is_the_same_in_yaml() -> None:
    """As a value and as a key, whatever it looks like."""
    for text in TEXTS:
        value = {text: [text, 1, True, None, {"a": text}]}
        assert yaml.safe_load(yaml_of(value)) == value


@pytest.mark.parametrize(
    ("path", "what"),
    [("/apis/autoscaling/v2beta2/horizontalpodautoscalers", "autoscaling/v2"), ("/api/v1/componentstatuses", "readyz"),
     ("/apis/networking.k8s.io/v1beta1/servicecidrs", "no effect here; `cloudcore run --kubeconfig FILE`"),
     ("/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies", "`cloudcore run --kubeconfig FILE`"),
     (f"{PODS}/a/scale", "no replicas"),
     ("/apis/apiregistration.k8s.io/v1/apiservices", "`cloudcore run --kubeconfig FILE`"),
     (f"{PODS}/a/resize", "resized"),
     ("/apis/nobody.example.org/v1/x", "resource")],
    ids=["autoscaler", "components", "networks", "webhooks", "scale", "aggregation", "resize", "other"],
)  # fmt: skip
def test_resources_that_are_not_served_have_a_remedy(api: Serving, path: str, what: str) -> None:
    """Still as 404 with kube-apiserver's words at the beginning, which clients know."""
    refused = api.ask("GET", path)
    status = json.loads(refused.body)
    assert (refused.status, status["reason"]) == (404, "NotFound")
    assert status["message"].startswith("the server could not find the requested resource")
    assert what in status["message"]


def test_a_path_of_nothing(api: Serving) -> None:
    """It is answered in kube-apiserver's text."""
    reply = api.ask("GET", "/nope")
    assert (reply.status, reply.body) == (404, b"404 page not found\n")


@pytest.mark.parametrize("version", ["v2", "v2beta1"])
def test_aggregated_discovery(api: Serving, version: str) -> None:
    """It has the resources of the documents of each group and version, in two answers of a media type of their own."""
    accept = f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"
    found = {}
    for path in ("/api", "/apis"):
        reply = api.ask("GET", path, accept=f"{accept},application/json")
        document = json.loads(reply.body)
        assert (reply.content_type, document["apiVersion"]) == (accept, f"apidiscovery.k8s.io/{version}")
        for group in document["items"]:
            for of in group["versions"]:
                root = f"/apis/{name}/{of['version']}" if (name := group["metadata"].get("name")) else "/api/v1"
                found[root] = {each["resource"]: each for each in of["resources"]}
    for root, resources in found.items():
        listed = json.loads(api.ask("GET", root).body)["resources"]
        flat = {
            one["name"]: (one["kind"], one["verbs"], one.get("shortNames", []), one["namespaced"]) for one in listed
        }
        assert flat == {name: entry for each in resources.values() for name, entry in entries(each)}
    groups = json.loads(api.ask("GET", "/apis").body)["groups"]
    assert len(found) == sum(len(each["versions"]) for each in groups) + 1
    assert api.ask("GET", "/apis", accept=f"application/json,{accept}").content_type == "application/json"
    eviction = [each for each in found["/api/v1"]["pods"]["subresources"] if each["subresource"] == "eviction"]
    assert eviction[0]["responseKind"] == {"group": "policy", "version": "v1", "kind": "Eviction"}


def entries(resource: dict[str, Any]) -> Iterator[tuple[str, tuple[str, list[str], list[str], bool]]]:
    """A resource and its subresources, as the flat form has them."""
    name, is_namespaced = resource["resource"], resource["scope"] == "Namespaced"
    short = resource.get("shortNames", [])
    yield name, (resource["responseKind"]["kind"], resource["verbs"], short, is_namespaced)
    for one in resource.get("subresources", ()):
        yield f"{name}/{one['subresource']}", (one["responseKind"]["kind"], one["verbs"], [], is_namespaced)


@pytest.mark.parametrize(
    ("words", "others", "told"),
    [
        (None, {}, "devices.example.io/v1 Device is deprecated"),
        (None, {"v1beta1": {}, "v2": {"served": False}, "v3": {"deprecated": True}},
         "devices.example.io/v1 Device is deprecated"),
        (None, {"v2": {}, "v3alpha1": {}},
         "devices.example.io/v1 Device is deprecated; use devices.example.io/v2 Device"),
        ("take v2", {"v3": {}}, "take v2"),
    ],
)  # fmt: skip
def test_a_deprecated_version_of_a_custom_resource_says_so(
    api: Serving, words: str | None, others: dict[str, Any], told: str
) -> None:
    """Each answer, as kubectl shows it; a watch in its head."""
    wanted = definition()
    first = wanted["spec"]["versions"][0]
    wanted["spec"]["versions"] += [{**first, "storage": False, "name": name, **more} for name, more in others.items()]
    wanted["spec"]["versions"][0] |= {"deprecated": True} | ({"deprecationWarning": words} if words else {})
    api.ask("POST", DEFINITIONS, wanted)
    answers = [api.ask("POST", DEVICES, device()), api.ask("GET", f"{DEVICES}/pump"), api.ask("GET", DEVICES)]
    assert [[value for name, value in one.headers if name == "Warning"] for one in answers] == [[f'299 - "{told}"']] * 3
    stream = api.reply("GET", DEVICES, watch="true")
    assert isinstance(stream, Stream)
    assert stream.begin is not None
    assert stream.begin(Watcher()).headers == (("Content-Type", "application/json"), ("Warning", f'299 - "{told}"'))
    stream.done()


def test_who_names_no_field_manager_is_its_program(api: Serving) -> None:
    """As in an API server: the User-Agent up to the first slash, without what cannot be printed."""
    assert manager_of_agent("kubectl/v1.32.4 (linux/amd64) kubernetes/0eb3c0a") == "kubectl"
    assert manager_of_agent("a\0b" + "c" * 200) == "ab" + "c" * 126
    made = json.loads(api.ask("POST", MAPS, {"metadata": {"name": "a"}, "data": {"b": "c"}}).body)
    assert "managedFields" not in made["metadata"], "of a client without a name"


@pytest.fixture
def port(api: Serving) -> Iterator[int]:
    """The API at a loopback port."""
    server = HttpServer(listen_tcp("127.0.0.1", 0), api.service, api.simulation.clock, max_body=1 << 20)
    server.start()
    yield server.port
    server.stop()


@pytest.mark.skipif(not (SDK / "kubectl.1.27").exists(), reason="there is no kubectl 1.27 on this machine")
def test_kubectl_before_openapi_v3_applies(api: Serving, port: int, tmp_path: Path) -> None:
    """kubectl 1.27 reads OpenAPI v2 in protobuf, then applies, and leaves the validation to the server."""
    manifest = tmp_path / "map.json"
    manifest.write_text(json.dumps(config_map("a", b="1")))
    kubectl = [str(SDK / "kubectl.1.27"), "--server", f"http://127.0.0.1:{port}", "apply", "-f", str(manifest)]
    done = subprocess.run(
        kubectl, env={"HOME": str(tmp_path)}, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.stdout == "configmap/a created\n", done.stderr
    manifest.write_text(json.dumps(config_map("a") | {"dta": {}}))
    done = subprocess.run(
        kubectl, env={"HOME": str(tmp_path)}, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert 'unknown field "dta"' in done.stderr
