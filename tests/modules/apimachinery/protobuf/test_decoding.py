"""Bodies in protobuf: a real kubectl's, every field of the table, and malformed bytes."""

import json
import re
import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from modules.apimachinery.event_versions import EVENTS
from modules.apimachinery.kinds import KINDS
from modules.apimachinery.limits import VALUES
from modules.apimachinery.protobuf import decoding, generate
from modules.apimachinery.protobuf.decoding import ProtobufError, TooManyMembersError, decode_protobuf
from modules.apimachinery.served_resources import RESOURCES, REVIEWS
from modules.apimachinery.structural_schema.rules import DEPTH

_KUBECTL = Path("/usr/lib/google-cloud-sdk/bin/kubectl.1.32")

CONFIG_MAP = (
    "6b3873000a0f0a0276311209436f6e6669674d6170121d0a130a0374776f12001a0022002a0032003800420012060a01611201621a002200"
)
ROBOT = (
    "6b3873000a280a1861757468656e7469636174696f6e2e6b38732e696f2f7631120c546f6b656e52657175657374121d0a100a0012"
    "001a0022002a00320038004200120320b0091a040a0012001a002200"
)
NODE_PORT = (
    "6b3873000a0d0a02763112075365727669636512670a1b0a017312001a0022002a003200380042005a080a0361707012017312440a"
    "200a0738302d6874747012035443501850220a080110001a046874747028b0ea0112080a036170701201731a0022084e6f6465506f"
    "72743a00420052005a00600068001a020a001a002200"
)
"""As kubectl 1.32 sent them: `create cm two --from-literal=a=b`, `create token robot --duration=20m`, and
`create service nodeport s --tcp=80:http --node-port=30000`."""


@pytest.mark.parametrize(
    ("body", "read"),
    [
        (CONFIG_MAP, {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "two"},
                      "data": {"a": "b"}}),
        (ROBOT, {"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1",
                       "metadata": {}, "spec": {"expirationSeconds": 1200}, "status": {"token": ""}}),
    ],
)  # fmt: skip
def test_what_kubectl_sends(body: str, read: dict[str, Any]) -> None:
    assert decode_protobuf(bytes.fromhex(body)) == read


def test_a_service_of_kubectl() -> None:
    """Its port is a name, and its fields without a text are left out."""
    service = decode_protobuf(bytes.fromhex(NODE_PORT))
    (port,) = service["spec"]["ports"]
    assert port == {"name": "80-http", "protocol": "TCP", "port": 80, "targetPort": "http", "nodePort": 30000}
    assert (service["spec"]["type"], service["spec"]["selector"]) == ("NodePort", {"app": "s"})
    assert "clusterIP" not in service["spec"]


def _varint(number: int) -> bytes:
    number &= (1 << 64) - 1
    made = bytearray()
    while number > 0x7F:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*made, number])


def _member(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _field(number: int, value: float | bytes) -> bytes:
    if isinstance(value, bytes):
        return _member(number, value)
    is_double = isinstance(value, float)
    return _varint(number << 3 | is_double) + (struct.pack("<d", value) if is_double else _varint(int(value)))


def _sample(kind: str, depth: int = 0) -> tuple[float | bytes, Any]:
    """Return a value of a kind in protobuf, and as it is read; messages have all their fields, to some depth."""
    known: dict[str, tuple[float | bytes, Any]] = {
        "d": (0.5, 0.5),
        "s": ("ü".encode(), "ü"),
        "b": (b"\x00", "AA=="),
        "t": (1, True),
        "i": (-7, -7),
        "meta.v1.Time": (b"\x08\x80\x88\xfe\xed\x05", "2019-11-04T01:50:56Z"),
        "meta.v1.MicroTime": (b"\x08\x80\x88\xfe\xed\x05\x10\xe8\x07", "2019-11-04T01:50:56.000001Z"),
        "resource.Quantity": (_member(1, b"100m"), "100m"),
        "intstr.IntOrString": (b"\x08\x00\x10\x50", 80),
        "meta.v1.FieldsV1": (_member(1, b'{"f:a":{}}'), {"f:a": {}}),
        "apiextensions.v1.JSON": (_member(1, b"[null]"), [None]),
        "apiextensions.v1.JSONSchemaPropsOrArray": (_member(2, b"") + _member(2, b""), [{}, {}]),
        "apiextensions.v1.JSONSchemaPropsOrBool": (_field(1, 0), False),
        "apiextensions.v1.JSONSchemaPropsOrStringArray": (_member(2, b"a"), ["a"]),
        "runtime.RawExtension": (_member(1, b'{"spec":{"$patch":"replace"}}'), {"spec": {"$patch": "replace"}}),
    }
    if kind in known:
        return known[kind]
    if kind.endswith(".ExtraValue"):
        return _member(1, b"x"), ["x"]
    data, read = b"", dict[str, Any]()
    for number, field in decoding.fields_of(kind).items() if depth < 6 else ():
        value, shown = _sample(field.kind, depth + 1)
        if field.form == "{":
            data += _member(number, _member(1, b"k") + _field(2, value))
            read[field.name] = {"k": shown}
            continue
        data += _field(number, value)
        if field.form == "[":
            read[field.name] = [shown]
        elif field.name:
            read[field.name] = shown
        else:
            read.update(shown)
    return data, read


def test_an_empty_text_stays_where_json_has_it() -> None:
    """The condition of a budget has no message, and kube-apiserver shows that it is empty."""
    condition = _member(1, b"DisruptionAllowed") + _member(5, b"") + _member(6, b"")
    budget = _member(1, _member(1, b"b") + _member(2, b"")) + _member(3, _member(7, condition))
    about = _member(1, b"policy/v1") + _member(2, b"PodDisruptionBudget")
    read = decode_protobuf(b"k8s\x00" + _member(1, about) + _member(2, budget))
    assert read["status"]["conditions"] == [{"type": "DisruptionAllowed", "reason": "", "message": ""}]
    assert read["metadata"] == {"name": "b"}, "JSON leaves an empty generateName out"


@pytest.mark.parametrize("kind", sorted(decoding._table().kinds))
def test_every_field_of_a_kind_is_read(kind: str) -> None:
    """What is not known beside them is skipped."""
    version, _, name = kind.rpartition("/")
    data, read = _sample(decoding._table().kinds[kind])
    assert isinstance(data, bytes)
    about = _member(1, version.encode()) + _member(2, name.encode())
    unknown = _member(999, b"x") + _varint(998 << 3 | 1) + b"12345678" + _varint(997 << 3 | 5) + b"1234"
    body = b"k8s\x00" + _member(1, about) + _member(2, data + unknown) + _member(3, b"") + _member(4, b"")
    assert decode_protobuf(body) == {"kind": name, "apiVersion": version, **read}
    assert json.dumps(read)


@pytest.mark.parametrize(
    "meta",
    [
        lambda count: b"\x72\x00" * count,
        lambda count: b"\x6a\x00" * count,
        lambda count: _member(8, b"\x18\x01" * count),
        lambda count: b"\x98\x06\x01" * count,
    ],
    ids=["texts", "messages", "within a time", "unknown members"],
)
def test_a_body_of_too_many_members_is_refused_before_they_are_read(meta: Callable[[int], bytes]) -> None:
    """A member takes two bytes: a million of them took five seconds."""
    about = _member(1, b"v1") + _member(2, b"ConfigMap")
    few, many = (b"k8s\x00" + _member(1, about) + _member(2, _member(1, meta(count))) for count in (100, 2 * VALUES))
    assert decode_protobuf(few)["kind"] == "ConfigMap"
    with pytest.raises(TooManyMembersError):
        decode_protobuf(many)


def _body(version: str, kind: str, data: bytes) -> bytes:
    about = _member(1, version.encode()) + _member(2, kind.encode())
    return b"k8s\x00" + _member(1, about) + _member(2, data)


def definition(schema: bytes) -> bytes:
    """Return the body of a CustomResourceDefinition, as client-go 0.32 writes it."""
    versions = _member(1, b"v1") + _field(2, 1) + _field(3, 1) + _member(4, _member(1, schema))
    names = b"".join(_member(number, name) for number, name in ((1, b"tones"), (2, b""), (4, b"Tone"), (5, b"")))
    spec = _member(1, b"example.com") + _member(3, names) + _member(4, b"Namespaced") + _field(10, 0)
    spec += _member(7, versions + _member(5, _member(1, b"")))
    whole = _member(1, _member(1, b"tones.example.com") + _member(2, b"")) + _member(2, spec) + _member(3, b"")
    return _body("apiextensions.k8s.io/v1", "CustomResourceDefinition", whole)


OBJECT = _member(5, b"object")
"""The schema of any object."""


def test_every_served_kind_is_known() -> None:
    """kube-controller-manager rolled out no DaemonSet, as its ControllerRevisions were refused; a kubelet ended within
    a minute, as its CSINode was; and operators could not install their CustomResourceDefinitions, which client-go 0.32
    writes in protobuf.
    """
    served = {f"{kind.api_version}/{kind.name}" for kind in KINDS}
    served |= {f"{review.group_version}/{review.kind}" for review in (*REVIEWS, EVENTS)}
    made = [(one, each) for one in RESOURCES for each in one.created_subresources]
    served |= {f"{each.group}/{each.version}/{each.kind}" if each.group else f"v1/{each.kind}" for _, each in made}
    assert served | {"autoscaling/v1/Scale", "/DeleteOptions"} <= decoding._table().kinds.keys()


def test_a_schema() -> None:
    """Its parts that are a schema, a list or a switch; its numbers, which JSON writes without an empty fraction; and
    the names of its extensions.
    """
    text = _member(5, b"string")
    parts = [
        OBJECT,
        _member(
            29, _member(1, b"list") + _member(2, _member(24, _member(1, text)) + _field(9, 3.0) + _field(11, -0.5))
        ),
        _member(
            29,
            _member(1, b"map")
            + _member(2, _member(30, _field(1, 1) + _member(2, text)) + _member(8, _member(1, b"{}"))),
        ),
        _member(29, _member(1, b"open") + _member(2, _field(38, 1) + _member(4, b"") + _member(30, _field(1, 1)))),
        _member(44, _member(1, b"self.x")),
    ]
    read = decode_protobuf(definition(b"".join(parts)))
    (version,) = read["spec"]["versions"]
    assert version == {
        "name": "v1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {
            "openAPIV3Schema": {
                "type": "object",
                "properties": {
                    "list": {"items": {"type": "string"}, "maximum": 3, "minimum": -0.5},
                    "map": {"additionalProperties": {"type": "string"}, "default": {}},
                    "open": {"x-kubernetes-preserve-unknown-fields": True, "additionalProperties": True},
                },
                "x-kubernetes-validations": [{"rule": "self.x"}],
            }
        },
    }
    assert json.dumps(read["spec"]["versions"]).count("3.0") == 0


def test_a_schema_as_deep_as_one_may_be() -> None:
    """A list at each level: two messages."""
    deep, deeper = b"", b""
    for level in range(50):
        deeper = _member(24, _member(1, deeper))
        deep = deeper if level < DEPTH else deep
    assert decode_protobuf(definition(deep))
    with pytest.raises(ProtobufError, match="messages in messages"):
        decode_protobuf(definition(deeper))


@pytest.mark.parametrize("value", [struct.pack("<d", float("inf")), struct.pack("<d", float("nan")), b"1234"])
def test_what_is_no_number_is_refused(value: bytes) -> None:
    """The last one ends too early."""
    with pytest.raises(ProtobufError):
        decode_protobuf(definition(_varint(9 << 3 | 1) + value))


@pytest.mark.parametrize(("wire", "rest"), [(1, b"1234567"), (2, b"\x05abcd"), (5, b"123")])
def test_a_body_that_ends_within_a_member_is_refused(wire: int, rest: bytes) -> None:
    """Also within an unknown one: what came after it is lost."""
    with pytest.raises(ProtobufError, match="unexpected EOF"):
        decode_protobuf(_body("v1", "Pod", _varint(999 << 3 | wire) + rest))


def test_zeros_that_json_leaves_out_are_left_out() -> None:
    """Of pointers they mean something: no replicas. A ReplicaSet of kube-controller-manager had another template than
    its Deployment, and a probe of a Go client no time at all.
    """
    probe = _varint(3 << 3) + b"\0"
    container = _member(1, b"c") + _member(10, probe) + _varint(16 << 3) + b"\0"
    pod = _varint(11 << 3) + b"\0" + _member(2, container) + _varint(4 << 3) + b"\0"
    spec = _varint(1 << 3) + b"\0" + _varint(4 << 3) + b"\0" + _member(3, _member(2, pod))
    about = _member(1, b"apps/v1") + _member(2, b"ReplicaSet")
    read = decode_protobuf(b"k8s\x00" + _member(1, about) + _member(2, _member(2, spec)))["spec"]
    (read_container,) = read["template"]["spec"].pop("containers")
    assert read == {"replicas": 0, "template": {"spec": {"terminationGracePeriodSeconds": 0}}}
    assert read_container == {"name": "c", "livenessProbe": {}}


@pytest.mark.parametrize(
    ("kind", "member", "read"),
    [
        ("batch/v1/Job", _member(3, _member(10, b"") + _member(7, b"")), {"status": {"failedIndexes": ""}}),
        ("v1/PersistentVolumeClaim", _member(2, _member(5, b"") + _member(3, b"")), {"spec": {"storageClassName": ""}}),
    ],
)
def test_an_empty_text_stays_where_none_means_something_else(kind: str, member: bytes, read: dict[str, Any]) -> None:
    """No storage class, instead of the default one. Without the failed indexes, kube-controller-manager writes the
    status of a Job at each look at it.
    """
    version, _, name = kind.rpartition("/")
    about = _member(1, version.encode()) + _member(2, name.encode())
    body = b"k8s\x00" + _member(1, about) + _member(2, member)
    assert decode_protobuf(body) == {"kind": name, "apiVersion": version, **read}


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    about = _member(1, b"v1") + _member(2, b"Pod")
    for body in (data, b"k8s\x00" + data, b"k8s\x00" + _member(1, about) + _member(2, data)):
        try:
            assert isinstance(decode_protobuf(body), dict)
        except ProtobufError as error:
            assert str(error)


@pytest.mark.parametrize(("version", "kind"), [("apps/v1", "Revision"), ("v1", "DeploymentX"), ("", "")])
def test_a_kind_that_is_not_known_is_refused(version: str, kind: str) -> None:
    about = _member(1, version.encode()) + _member(2, kind.encode())
    with pytest.raises(ProtobufError, match="is registered for version"):
        decode_protobuf(b"k8s\x00" + _member(1, about) + _member(2, b""))


def _files(program: bytes) -> Iterator[FileDescriptorProto]:
    """Yield the descriptors in a Go program, which has each compressed."""
    for found in re.finditer(rb"\x1f\x8b\x08\x00\x00\x00\x00\x00", program):
        reader = zlib.decompressobj(31)
        try:
            text = reader.decompress(program[found.start() : found.start() + (1 << 20)])
            file = FileDescriptorProto.FromString(text) if reader.eof else FileDescriptorProto()
        except (zlib.error, DecodeError):
            continue
        if file.name.startswith("k8s.io/"):
            yield file


@pytest.mark.skipif(not _KUBECTL.exists(), reason="kubectl 1.32 is not here")
def test_the_table_equals_kubectls() -> None:
    """Of the messages that a kubectl has: all but those of apiextensions and resource.k8s.io/v1."""
    table, compared = decoding._table().types, 0
    for file in _files(_KUBECTL.read_bytes()):
        for message in file.message_type:
            known = table.get(generate.short_name(f"{file.package}.") + message.name)
            if known is not None:
                there = {number: kind for number, kind, _ in generate.field_kinds(message)}
                assert {number: text.partition(":")[2].rstrip("?") for number, text in known.items()} == there
                compared += 1
    others = [name for name in table if name.startswith(("apiextensions.", "resource.v1."))]
    assert compared == len(table) - len(others)


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (1.0, "1"),
        (-1.5, "-1.5"),
        (2.0**53 - 1, str(2**53 - 1)),
        (2.0**53, "9007199254740992.0"),
        (-(2.0**53), "-9007199254740992.0"),
    ],
)
def test_a_whole_number_is_one_as_far_as_each_is_exact(number: float, shown: str) -> None:
    assert str(decoding._double(memoryview(struct.pack("<d", number)))) == shown
