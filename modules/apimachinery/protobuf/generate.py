"""Makes `messages.json` from the protobuf descriptors that a kubectl contains.

`python -m modules.apimachinery.protobuf.generate KUBECTL SOURCES` prints it. Go programs keep each descriptor
compressed. Which zeros and empty texts JSON leaves out is only in Kubernetes' sources (`staging/src/k8s.io`, the
`types.go`).
"""

import re
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.message import DecodeError

from beehive.decoding import decode_json

_COMPRESSED: Final = re.compile(rb"\x1f\x8b\x08\x00\x00\x00\x00\x00")
_LONGEST: Final = 1 << 20
_ROOTS: Final = {
    "v1": ("core.v1", ("Binding", "ConfigMap", "Endpoints", "Event", "LimitRange", "Namespace", "Node",
                       "PersistentVolume", "PersistentVolumeClaim", "Pod", "ReplicationController", "ResourceQuota",
                       "Secret", "Service", "ServiceAccount")),
    "apps/v1": ("apps.v1", ("ControllerRevision", "DaemonSet", "Deployment", "ReplicaSet", "StatefulSet")),
    "batch/v1": ("batch.v1", ("CronJob", "Job")),
    "autoscaling/v1": ("autoscaling.v1", ("Scale",)),
    "authentication.k8s.io/v1": ("authentication.v1", ("SelfSubjectReview", "TokenRequest", "TokenReview")),
    "authorization.k8s.io/v1": ("authorization.v1", ("SelfSubjectAccessReview", "SelfSubjectRulesReview",
                                                     "SubjectAccessReview", "LocalSubjectAccessReview")),
    "certificates.k8s.io/v1": ("certificates.v1", ("CertificateSigningRequest",)),
    "coordination.k8s.io/v1": ("coordination.v1", ("Lease",)),
    "discovery.k8s.io/v1": ("discovery.v1", ("EndpointSlice",)),
    "events.k8s.io/v1": ("events.v1", ("Event",)),
    "node.k8s.io/v1": ("node.v1", ("RuntimeClass",)),
    "policy/v1": ("policy.v1", ("Eviction", "PodDisruptionBudget")),
    "rbac.authorization.k8s.io/v1": ("rbac.v1", ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")),
    "scheduling.k8s.io/v1": ("scheduling.v1", ("PriorityClass",)),
    "storage.k8s.io/v1": ("storage.v1", ("CSIDriver", "CSINode", "CSIStorageCapacity", "StorageClass",
                                         "VolumeAttachment")),
    "": ("meta.v1", ("DeleteOptions",)),
}  # fmt: skip
_INLINE: Final = ("volumeSource", "persistentVolumeSource", "handler", "ephemeralContainerCommon",
                  "localObjectReference")  # fmt: skip
"""Messages that JSON inlines into their parent."""
_OTHERWISE: Final = {"uID": "uid"}
"""Names that JSON spells otherwise."""
_SCALARS: Final = {
    FieldDescriptorProto.TYPE_STRING: "s",
    FieldDescriptorProto.TYPE_BYTES: "b",
    FieldDescriptorProto.TYPE_BOOL: "t",
    FieldDescriptorProto.TYPE_INT32: "i",
    FieldDescriptorProto.TYPE_INT64: "i",
}
_OMITTED: Final = re.compile(
    r'^\s+\w+\s+[\w.]+\s+`json:"\w+,omitempty".*protobuf:"(?:varint|bytes),(\d+)', re.MULTILINE
)
_PACKAGE: Final = re.compile(r"\.?k8s\.io\.(api|apimachinery\.pkg(\.apis|\.util|\.api)?)\.")


def main(kubectl: Path, sources: Path | None = None) -> str:
    """Return the table of a kubectl; without sources, no field has the mark that its zero is left out."""
    messages = {name: message for file in _files(kubectl.read_bytes()) for name, message in _messages(file)}
    kinds = {f"{version}/{kind}": f"{package}.{kind}" for version, (package, of) in _ROOTS.items() for kind in of}
    types: dict[str, dict[str, str]] = {}
    waiting = sorted(kinds.values())
    while waiting:
        name = waiting.pop()
        if name not in types:
            types[name] = dict(_fields(messages[name]))
            for number in _left_out(name, sources) if sources is not None else ():
                types[name][number] += "?" * types[name][number].endswith((":i", ":t", ":s"))
            waiting += [each.split(">")[1] for each in types[name].values() if ">" in each]
    lines = [f'"{name}":{_json(types[name])}' for name in sorted(types)]
    return '{"kinds":' + _json(kinds) + ',\n"types":{\n' + ",\n".join(lines) + "\n}}\n"


def _left_out(message: str, sources: Path) -> Iterator[str]:
    """Yield the numbers of the fields that are no pointers and that JSON leaves out when they are zero."""
    package, _, name = message.rpartition(".")
    below = "apimachinery/pkg/apis/meta/v1" if package == "meta.v1" else f"api/{package.replace('.', '/')}"
    path = sources / below / "types.go"
    found = re.search(rf"\ntype {name} struct {{\n(.*?)\n}}", path.read_text(), re.DOTALL) if path.exists() else None
    yield from _OMITTED.findall(found[1]) if found is not None else ()


def _json(value: dict[str, str]) -> str:
    inside = ",".join(f'"{key}":"{text}"' for key, text in value.items())
    return "{" + inside + "}"


def _files(program: bytes) -> Iterator[FileDescriptorProto]:
    for found in _COMPRESSED.finditer(program):
        reader = zlib.decompressobj(31)
        try:
            text = reader.decompress(program[found.start() : found.start() + _LONGEST])
            file = FileDescriptorProto.FromString(text) if reader.eof else FileDescriptorProto()
        except (zlib.error, DecodeError):
            continue
        if file.name.startswith("k8s.io/"):
            yield file


def _messages(file: FileDescriptorProto) -> Iterator[tuple[str, DescriptorProto]]:
    package = _short(f"{file.package}.")
    for message in file.message_type:
        yield f"{package}{message.name}", message


def _short(name: str) -> str:
    return _PACKAGE.sub("", name)


def _fields(message: DescriptorProto) -> Iterator[tuple[str, str]]:
    """Yield number and text of each field: its name, and its type after a colon."""
    entries = {one.name: one for one in message.nested_type if one.options.map_entry}
    for field in message.field:
        entry = entries.get(field.type_name.rpartition(".")[2])
        if entry is not None:
            kind = "{" + _type(entry.field[1])
        else:
            kind = "[" * (field.label == FieldDescriptorProto.LABEL_REPEATED) + _type(field)
        is_inline = field.name in _INLINE and field.type == FieldDescriptorProto.TYPE_MESSAGE
        name = "" if is_inline else _OTHERWISE.get(field.name, field.name)
        yield str(field.number), f"{name}:{kind}"


def _type(field: FieldDescriptorProto) -> str:
    return _SCALARS.get(field.type) or f">{_short(field.type_name)}"


if __name__ == "__main__":
    table = main(Path(sys.argv[1]), Path(sys.argv[2]))
    decode_json(table, dict[str, dict[str, object]])
    sys.stdout.write(table)
