"""Objects are read as leniently as Go reads them, and written as Go writes them."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from modules.apimachinery.types import (
    ConfigMap,
    DecodeError,
    DeleteOptions,
    KubeStruct,
    Lease,
    Node,
    Pod,
    PodStatus,
    Secret,
    Status,
    TokenRequest,
    decode,
    encode,
    kube_name,
    to_value,
)
from tests.interop.traces import messages, recordings

_KINDS: dict[str, type[KubeStruct]] = {
    "pod": Pod,
    "podpatch": Pod,
    "node": Node,
    "nodepatch": Node,
    "lease": Lease,
    "configmap": ConfigMap,
    "secret": Secret,
    "serviceaccounttoken": TokenRequest,
}
_NOT_KEPT = {"managedFields", "fieldsV1", "deprecatedTopology"}


def _objects() -> Iterator[tuple[str, type[KubeStruct], dict[str, Any]]]:
    for file in recordings():
        for message in messages(file):
            resource = message["route"]["resource"].split("/")
            content = message["content"]
            if isinstance(content, dict) and "Object" in content:
                content = content["Object"]
            if not isinstance(content, dict):
                continue
            kind = _KINDS.get(resource[1]) if len(resource) == 3 else None
            if "gracePeriodSeconds" in content:
                kind = DeleteOptions
            if kind is not None:
                yield f"{file.name}:{message['header']['msg_id']}", kind, content


OBJECTS = list(_objects())


def _kept(value: Any) -> Any:
    """The value without the parts that the types leave out on purpose."""
    if isinstance(value, dict):
        return {key: _kept(item) for key, item in value.items() if key not in _NOT_KEPT}
    if isinstance(value, list):
        return [_kept(item) for item in value]
    return value


def test_every_recorded_object_survives() -> None:
    """Each object that real cloud and edge exchanged is written as it was read, managedFields aside."""
    for name, kind, content in OBJECTS:
        written = json.loads(encode(decode(kind, json.dumps(content))))
        assert written == _kept(content), name
    assert len(OBJECTS) > 50


@pytest.mark.parametrize(
    ("attribute", "key"),
    [
        ("pod_ip", "podIP"),
        ("pod_ips", "podIPs"),
        ("host_ipc", "hostIPC"),
        ("host_pid", "hostPID"),
        ("container_id", "containerID"),
        ("uid", "uid"),
        ("api_version", "apiVersion"),
        ("downward_api", "downwardAPI"),
        ("system_uuid", "systemUUID"),
        ("set_hostname_as_fqdn", "setHostnameAsFQDN"),
        ("se_linux_options", "seLinuxOptions"),
        ("pod_cidrs", "podCIDRs"),
        ("restart_policy", "restartPolicy"),
    ],
)
def test_attribute_names_become_kubernetes_keys(attribute: str, key: str) -> None:
    """Acronyms are written in capitals, except at the start."""
    assert kube_name(attribute) == key


def test_null_counts_as_absent_everywhere() -> None:
    """A null that Go decodes as its zero value is the default here, at any depth."""
    raw = """{"metadata": {"name": "a", "creationTimestamp": null, "labels": null, "annotations": {"x": null}},
              "spec": {"volumes": null, "securityContext": null, "hostNetwork": null, "containers": [
                  null, {"name": "c", "command": null, "ports": [{"containerPort": null}]}]},
              "status": null}"""
    pod = decode(Pod, raw)
    assert pod.metadata.name == "a"
    assert [container.name for container in pod.spec.containers] == ["c"]
    assert pod.spec.containers[0].ports[0].container_port == 0
    assert pod.status == PodStatus()


def test_null_containers_are_no_containers() -> None:
    """A pod list skeleton with null containers decodes to an empty spec."""
    assert decode(Pod, b'{"spec":{"containers":null}}').spec.containers == ()


def test_wrong_type_names_its_path() -> None:
    """The error says where in the object the wrong value stands, also behind nulls."""
    with pytest.raises(DecodeError, match=r"cannot read a Pod.*\$\.spec\.containers\[0\]\.name"):
        decode(Pod, b'{"metadata":{"labels":null},"spec":{"containers":[{"name":7}]}}')


@pytest.mark.parametrize("raw", [b"", b"{", b"\xff", b'"pod"', b"[]"])
def test_text_that_is_not_an_object_is_an_error(raw: bytes) -> None:
    """Truncated and mistyped texts end in the one decoding error."""
    with pytest.raises(DecodeError, match="cannot read a Pod"):
        decode(Pod, raw)


def test_unknown_fields_are_ignored() -> None:
    """A newer cloud may send fields that are unknown to this version."""
    assert decode(Pod, b'{"spec":{"nodeName":"n","brandNew":{"x":[1]}}}').spec.node_name == "n"


def test_secret_data_is_bytes_and_stays_out_of_logs() -> None:
    """Values are decoded from base64, encoded back, and absent from the representation."""
    secret = decode(Secret, b'{"metadata":{"name":"s"},"data":{"password":"czNjcjN0"},"type":"Opaque"}')
    assert secret.data == {"password": b"s3cr3t"}
    assert "s3cr3t" not in repr(secret)
    assert "password" in repr(secret)
    assert to_value(secret)["data"] == {"password": "czNjcjN0"}


def test_token_stays_out_of_logs() -> None:
    """A service account token is absent from the representation of its request."""
    assert "eyJ" not in repr(decode(TokenRequest, b'{"status":{"token":"eyJabc"}}'))


def test_required_fields_are_written_when_empty() -> None:
    """A container status always carries the keys that Go writes without omitempty, and no others."""
    status = decode(PodStatus, b'{"containerStatuses":[{"name":"c"}],"conditions":[{"type":"Ready"}]}')
    written = to_value(status)
    assert written["containerStatuses"] == [
        {"name": "c", "state": {}, "lastState": {}, "ready": False, "restartCount": 0, "image": "", "imageID": ""}
    ]
    assert written["conditions"] == [{"type": "Ready", "status": "", "lastProbeTime": None, "lastTransitionTime": None}]


def test_status_of_a_refused_request_is_read() -> None:
    """The verdict of the API server arrives with its reason, code and object."""
    verdict = decode(
        Status, b'{"metadata":{},"status":"Failure","reason":"NotFound","details":{"name":"x"},"code":404}'
    )
    assert (verdict.reason, verdict.code, verdict.details and verdict.details.name) == ("NotFound", 404, "x")
