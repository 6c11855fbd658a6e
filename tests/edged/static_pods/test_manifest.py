"""From a file to a static pod."""

import json
from typing import Any

import pytest

from edged.errors import ManifestError
from edged.static_pods.manifest import CONFIG_HASH, LARGEST, static_pod
from modules.apimachinery.pods.static import CONFIG_MIRROR, CONFIG_SOURCE, is_mirror, is_static
from modules.apimachinery.types import Pod, from_value

YAML = b"""
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec:
  containers: [{name: main, image: busybox}]
"""


def test_a_file_becomes_a_pod_of_this_node() -> None:
    pod = from_value(Pod, static_pod(YAML, "/m/web.yaml", "n1"))
    assert (pod.metadata.namespace, pod.metadata.name, pod.spec.node_name) == ("default", "web-n1", "n1")
    assert pod.metadata.labels == {"app": "web"}
    assert pod.metadata.annotations == {CONFIG_SOURCE: "file", CONFIG_HASH: pod.metadata.uid}
    assert pod.spec.restart_policy == "Always"
    assert [(t.operator, t.effect) for t in pod.spec.tolerations] == [("Exists", "NoExecute")]
    assert is_static(pod)
    assert not is_mirror(pod)


def test_json_is_the_same() -> None:
    text = json.dumps({"kind": "Pod", "metadata": {"name": "web"}, "spec": {"containers": [{"name": "main"}]}}).encode()
    assert static_pod(text, "/m/web.json", "n1")["metadata"]["name"] == "web-n1"


def test_the_uid_is_the_same_until_node_file_or_content_changes() -> None:
    def uid(text: bytes = YAML, file: str = "/m/web.yaml", node: str = "n1") -> str:
        return str(static_pod(text, file, node)["metadata"]["uid"])

    assert uid() == uid()
    assert len({uid(), uid(text=YAML + b"#"), uid(file="/m/other.yaml"), uid(node="n2")}) == 4


def test_a_mirror_is_not_static() -> None:
    pod = from_value(Pod, {"metadata": {"annotations": {CONFIG_SOURCE: "file", CONFIG_MIRROR: "x"}}})
    assert is_mirror(pod)
    assert not is_static(pod)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"", "kind: Pod"),
        (b"{", "neither YAML nor JSON"),
        (b"kind: Service", "kind: Pod"),
        (b"kind: Pod\nmetadata: {name: a}", "spec.containers"),
        (b"kind: Pod\nmetadata: {name: a, uid: b/c}\nspec: {containers: [{name: x}]}", "usable as file names"),
        (
            b"kind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: x, resources: {limits: {cpu: two}}}]}",
            "cannot read the quantity",
        ),
        (b"kind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: x}], more: {on: 1}}", "str-like"),
        (b"kind: Pod\nmetadata: {name: ../a}\nspec: {containers: [{name: x}]}", "metadata.name"),
        (b"kind: Pod\nmetadata: {name: a, namespace: ../b}\nspec: {containers: [{name: x}]}", "metadata.name"),
        (b"kind: Pod\nmetadata: {name: a}\nspec: {containers: 7}", "containers"),
        (
            b"kind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: x}], activeDeadlineSeconds: 1"
            + b"0" * 400
            + b"}",
            "more than 64 bits",
        ),
        (b"#" * (LARGEST + 1), "at most"),
        (b"#" * LARGEST, "one object of"),
        (
            b"kind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: x}], volumes: [{name: v, secret: {}}]}",
            "kept in the cloud",
        ),
    ],
)
def test_an_invalid_manifest_is_refused_with_file_and_reason(text: bytes, words: str) -> None:
    with pytest.raises(ManifestError) as caught:
        static_pod(text, "/m/web.yaml", "n1")
    assert "/m/web.yaml" in str(caught.value)
    assert words in str(caught.value)


def test_a_files_own_uid_stays(value: Any = None) -> None:
    text = YAML.replace(b"name: web,", b"name: web, uid: my-uid,", 1)
    assert static_pod(text, "/m/web.yaml", "n1")["metadata"]["uid"] == "my-uid"


def test_a_manifest_of_a_pod_that_no_node_could_run_is_refused() -> None:
    """With the field: what ran before of the file goes on."""
    text = YAML.replace(b"image: busybox", b"image: busybox, ports: [{containerPort: 70000}]")
    with pytest.raises(ManifestError, match=r"spec\.containers\[0\]\.ports\[0\]\.containerPort: Invalid value: 70000"):
        static_pod(text, "/m/web.yaml", "n1")
