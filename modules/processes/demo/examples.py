"""The examples: manifests of a directory, with the expected state of each pod and workload.

The expectation is an annotation, so that the example itself tells it to the demo, the tests and readers.
"""

from collections.abc import Iterable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from beehive.errors import BeehiveError
from modules.apimachinery.kinds import JsonObject
from modules.cloud.apiserver.manifests import items_of, read_manifests

EXPECT_ANNOTATION = "edgecore.io/expect"
_SUFFIXES = (".yaml", ".yml", ".json")
_MAX_BYTES = 1024 * 1024
_POD = "Pod"
KINDS = (_POD, "Deployment", "DaemonSet", "CronJob")
"""The kinds of objects with pods."""
SERVICE = "Service"
_EXAMPLE_PORT = "8080"


class Expectation(StrEnum):
    """Expected state of a pod or workload."""

    RUNNING = "Running"
    """All its containers run and are ready."""
    CRASH_LOOP = "CrashLoopBackOff"
    """It has been restarted after a failure and waits for the next restart."""
    SUCCEEDED = "Succeeded"
    """All its containers have ended with status 0."""
    AVAILABLE = "Available"
    """A Deployment or DaemonSet has all of its pods, and they are available."""
    SCHEDULED = "Scheduled"
    """A CronJob waits for its next time."""
    ANSWERS = "Answers"
    """A program of the node has asked a Service by its name, and a pod has answered."""


class ObjectName(NamedTuple):
    """Identity of a pod, or of another object."""

    namespace: str
    name: str
    kind: str = _POD

    @property
    def shown(self) -> str:
        """The name of a pod; other objects have their kind before it."""
        return self.name if self.kind == _POD else f"{self.kind.lower()}/{self.name}"


class Example(NamedTuple):
    """One file."""

    path: Path
    objects: list[JsonObject]
    expected: dict[ObjectName, Expectation]


class ExampleError(BeehiveError):
    """The example is missing, or has no expectation for a pod."""


def read_examples(directory: Path) -> list[Example]:
    """Read all examples of a directory, in the order of their file names.

    Raises:
        ExampleError: there are no pods, or a pod has no expectation or an unknown one.
        ManifestError: a file is no manifest.
    """
    examples = [read_example(path) for path in _files_in(directory)]
    if not any(example.expected for example in examples):
        raise ExampleError("find examples", str(directory), "a directory with manifests of pods is wanted")
    return examples


def read_example(path: Path) -> Example:
    """Read one file; errors as of `read_examples`."""
    objects = list(items_of(document.content for document in read_manifests(_text_of(path), str(path))))
    return Example(path, objects, dict(_expectations(objects, path)))


def with_own_port(example: Example, directory: Path, port: int) -> Example:
    """Return the example with a free port of this machine, which its pods share: a copy of the file, if it names one.

    Raises:
        OSError: the copy could not be written.
    """
    text = _text_of(example.path)
    if _EXAMPLE_PORT not in text:
        return example
    copy = directory / example.path.name
    copy.write_text(text.replace(_EXAMPLE_PORT, str(port)))
    return read_example(copy)


def images_of(examples: Iterable[Example]) -> set[str]:
    """Return the images that the examples' pods name."""
    specs = [_pod_spec(each) for example in examples for each in example.objects if each.get("kind") in KINDS]
    containers = [each for spec in specs for kind in ("initContainers", "containers") for each in spec.get(kind) or ()]
    return {str(each["image"]) for each in containers}


def _pod_spec(obj: JsonObject) -> JsonObject:
    """Return the spec of a pod, or of a workload's template."""
    spec: JsonObject = obj.get("spec") or {}
    spec = (spec.get("jobTemplate") or {}).get("spec") or spec
    return (spec.get("template") or {}).get("spec") or spec


def _files_in(directory: Path) -> list[Path]:
    try:
        return sorted(path for path in directory.iterdir() if path.suffix in _SUFFIXES)
    except OSError as error:
        raise ExampleError("find examples", str(directory), error.strerror or str(error)) from error


def _text_of(path: Path) -> str:
    with path.open("rb") as file:
        data = file.read(_MAX_BYTES + 1)
    if len(data) > _MAX_BYTES:
        raise ExampleError("read an example", str(path), f"at most {_MAX_BYTES} bytes are read")
    return data.decode()


def _expectations(objects: Iterable[JsonObject], path: Path) -> Iterator[tuple[ObjectName, Expectation]]:
    for obj in objects:
        meta = obj.get("metadata") or {}
        is_asked = obj.get("kind") == SERVICE and EXPECT_ANNOTATION in (meta.get("annotations") or {})
        if obj.get("kind") in KINDS or is_asked:
            name = ObjectName(meta.get("namespace") or "default", str(meta.get("name")), obj["kind"])
            yield name, _expectation(meta.get("annotations") or {}, f"{path}: {name.kind.lower()} {name.name}")


def _expectation(annotations: JsonObject, where: str) -> Expectation:
    try:
        return Expectation(annotations.get(EXPECT_ANNOTATION, ""))
    except ValueError:
        allowed = ", ".join(Expectation)
        raise ExampleError("read an example", where, f"annotation {EXPECT_ANNOTATION}: one of {allowed}") from None
