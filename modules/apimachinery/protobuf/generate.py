"""Makes `messages.json` from Kubernetes' sources: `generated.proto` and, for the names in JSON and what it leaves out
when it is empty, `types.go`.

`python -m modules.apimachinery.protobuf.generate SOURCES...` prints it; each is the `staging/src` of a version. The
first that has a file counts: the table is of 1.32, and of 1.34 for `resource.k8s.io/v1`, which 1.32 lacks.
"""

import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet
from grpc_tools import protoc

from beehive.decoding import decode_json

_ROOTS: Final = {
    "v1": ("core.v1", ("Binding", "ConfigMap", "Endpoints", "Event", "LimitRange", "Namespace", "Node",
                       "PersistentVolume", "PersistentVolumeClaim", "Pod", "PodTemplate", "ReplicationController",
                       "ResourceQuota", "Secret", "Service", "ServiceAccount")),
    "apiextensions.k8s.io/v1": ("apiextensions.v1", ("CustomResourceDefinition",)),
    "apps/v1": ("apps.v1", ("ControllerRevision", "DaemonSet", "Deployment", "ReplicaSet", "StatefulSet")),
    "batch/v1": ("batch.v1", ("CronJob", "Job")),
    "autoscaling/v1": ("autoscaling.v1", ("HorizontalPodAutoscaler", "Scale")),
    "autoscaling/v2": ("autoscaling.v2", ("HorizontalPodAutoscaler",)),
    "authentication.k8s.io/v1": ("authentication.v1", ("SelfSubjectReview", "TokenRequest", "TokenReview")),
    "authorization.k8s.io/v1": ("authorization.v1", ("SelfSubjectAccessReview", "SelfSubjectRulesReview",
                                                     "SubjectAccessReview", "LocalSubjectAccessReview")),
    "certificates.k8s.io/v1": ("certificates.v1", ("CertificateSigningRequest",)),
    "coordination.k8s.io/v1": ("coordination.v1", ("Lease",)),
    "discovery.k8s.io/v1": ("discovery.v1", ("EndpointSlice",)),
    "events.k8s.io/v1": ("events.v1", ("Event",)),
    "flowcontrol.apiserver.k8s.io/v1": ("flowcontrol.v1", ("FlowSchema", "PriorityLevelConfiguration")),
    "networking.k8s.io/v1": ("networking.v1", ("Ingress", "IngressClass", "NetworkPolicy")),
    "node.k8s.io/v1": ("node.v1", ("RuntimeClass",)),
    "policy/v1": ("policy.v1", ("Eviction", "PodDisruptionBudget")),
    "rbac.authorization.k8s.io/v1": ("rbac.v1", ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")),
    "resource.k8s.io/v1": ("resource.v1", ("DeviceClass", "ResourceClaim", "ResourceSlice")),
    "scheduling.k8s.io/v1": ("scheduling.v1", ("PriorityClass",)),
    "storage.k8s.io/v1": ("storage.v1", ("CSIDriver", "CSINode", "CSIStorageCapacity", "StorageClass",
                                         "VolumeAttachment")),
    "": ("meta.v1", ("DeleteOptions",)),
}  # fmt: skip
_SCALARS: Final = {
    FieldDescriptorProto.TYPE_DOUBLE: "d",
    FieldDescriptorProto.TYPE_STRING: "s",
    FieldDescriptorProto.TYPE_BYTES: "b",
    FieldDescriptorProto.TYPE_BOOL: "t",
    FieldDescriptorProto.TYPE_INT32: "i",
    FieldDescriptorProto.TYPE_INT64: "i",
}
_WITH_ZERO: Final = ("i", "t", "s")
_TAGS: Final = re.compile(
    r'^\s+(?:\w+\s+)?(?P<go>\S+)\s+`json:"(?P<name>[^",]*)(?P<marks>[^"]*)".*protobuf:"\w+,(?P<number>\d+)',
    re.MULTILINE,
)
_PLAIN: Final = re.compile(r"[\w.]+")
"""A type of Go that is no pointer, list or map."""
_PACKAGE: Final = re.compile(
    r"\.?k8s\.io\.(api|apiextensions_apiserver\.pkg\.apis|apimachinery\.pkg(\.apis|\.util|\.api)?)\."
)


def main(*sources: Path) -> str:
    """Return the table."""
    kinds = {f"{version}/{kind}": f"{package}.{kind}" for version, (package, of) in _ROOTS.items() for kind in of}
    messages = {
        f"{short_name(f'{file.package}.')}{message.name}": (
            message,
            _tags(message.name, Path(file.name).parent, sources),
        )
        for file in _files(sources)
        for message in file.message_type
    }
    types: dict[str, dict[str, str]] = {}
    waiting = sorted(kinds.values())
    while waiting:
        name = waiting.pop()
        if name not in types:
            types[name] = dict(_fields(*messages[name]))
            waiting += [each.split(">")[1].rstrip("?") for each in types[name].values() if ">" in each]
    lines = [f'"{name}":{_json(types[name])}' for name in sorted(types)]
    return '{"kinds":' + _json(kinds) + ',\n"types":{\n' + ",\n".join(lines) + "\n}}\n"


def _json(value: dict[str, str]) -> str:
    inside = ",".join(f'"{key}":"{text}"' for key, text in value.items())
    return "{" + inside + "}"


def _files(sources: Sequence[Path]) -> Sequence[FileDescriptorProto]:
    """Return the files with the kinds, and those that they import."""
    below = [
        f"k8s.io/{'apiextensions-apiserver/pkg/apis' if package.startswith('apiext') else 'api'}/"
        f"{package.replace('.', '/')}/generated.proto"
        for package, _ in _ROOTS.values()
        if not package.startswith("meta.")
    ]
    with tempfile.NamedTemporaryFile() as made:
        options = [f"--descriptor_set_out={made.name}", "--include_imports", *(f"-I{each}" for each in sources)]
        if protoc.main(["protoc", *options, *below]):
            raise SystemExit(1)
        return FileDescriptorSet.FromString(Path(made.name).read_bytes()).file


def _tags(message: str, directory: Path, sources: Sequence[Path]) -> dict[str, re.Match[str]]:
    """Return the tags of a type of Go by the numbers of the fields."""
    whole = next(each / directory for each in sources if (each / directory / "generated.proto").exists())
    text = "".join(file.read_text() for file in sorted(whole.glob("types*.go")))
    found = re.search(rf"\ntype {message} struct {{\n(.*?)\n}}", text, re.DOTALL)
    return {} if found is None else {tag["number"]: tag for tag in _TAGS.finditer(found[1])}


def short_name(name: str) -> str:
    """Return the name of a message, or of a package with a dot, as the table has it."""
    return _PACKAGE.sub("", name)


def _fields(message: DescriptorProto, tags: dict[str, re.Match[str]]) -> Iterator[tuple[str, str]]:
    """Yield number and text of each field: its name, and its type after a colon."""
    for number, kind, name in field_kinds(message):
        tag = tags.get(number)
        if tag is None or tag["name"] == "-":
            yield number, f"{name}:{kind}"
            continue
        can_be_empty = kind[0] in "[{" or (kind in _WITH_ZERO and _PLAIN.fullmatch(tag["go"]))
        is_left_out = can_be_empty and "omitempty" in tag["marks"]
        yield number, f"{tag['name']}:{kind}{'?' if is_left_out else ''}"


def field_kinds(message: DescriptorProto) -> Iterator[tuple[str, str, str]]:
    """Yield number, type and name of each field of a message."""
    entries = {one.name: one for one in message.nested_type if one.options.map_entry}
    for field in message.field:
        entry = entries.get(field.type_name.rpartition(".")[2])
        if entry is not None:
            kind = "{" + _type(entry.field[1])
        else:
            kind = "[" * (field.label == FieldDescriptorProto.LABEL_REPEATED) + _type(field)
        yield str(field.number), kind, field.name


def _type(field: FieldDescriptorProto) -> str:
    is_message = field.type == FieldDescriptorProto.TYPE_MESSAGE
    return f">{short_name(field.type_name)}" if is_message else _SCALARS[field.type]


if __name__ == "__main__":
    table = main(*map(Path, sys.argv[1:]))
    decode_json(table, dict[str, dict[str, object]])
    sys.stdout.write(table)
