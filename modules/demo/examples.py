"""The manifests of a directory, and what each pod in them is expected to become.

The expectation is an annotation, so that the example says itself what is right, to the demo, to the tests, and to
whoever reads it.
"""

from collections.abc import Iterable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from beehive.errors import BeehiveError
from modules.edgecontroller.kinds import JsonObject
from modules.edgecontroller.manifests import items_of, read_manifests

EXPECT_ANNOTATION = "edgecore.io/expect"
_SUFFIXES = (".yaml", ".yml", ".json")
_MAX_BYTES = 1024 * 1024


class Expectation(StrEnum):
    """Where a pod of an example should arrive."""

    RUNNING = "Running"
    """All its containers run and are ready."""
    CRASH_LOOP = "CrashLoopBackOff"
    """It has been started again after a failure, and waits before the next start."""
    SUCCEEDED = "Succeeded"
    """All its containers have ended well."""


class PodName(NamedTuple):
    """What a pod is known by."""

    namespace: str
    name: str


class Example(NamedTuple):
    """One file."""

    path: Path
    objects: list[JsonObject]
    expected: dict[PodName, Expectation]


class ExampleError(BeehiveError):
    """An example that cannot be shown: it is not there, or does not say what to expect of a pod."""


def read_examples(directory: Path) -> list[Example]:
    """All examples of a directory, by file name.

    Raises:
        ExampleError: there are none, or a pod has no expectation or an unknown one.
        ManifestError: a file is no manifest.
    """
    examples = [read_example(path) for path in _files_in(directory)]
    if not any(example.expected for example in examples):
        raise ExampleError("find examples", str(directory), "a directory with manifests of pods is wanted")
    return examples


def read_example(path: Path) -> Example:
    """One file; errors as of `read_examples`."""
    objects = list(items_of(document.content for document in read_manifests(_text_of(path), str(path))))
    return Example(path, objects, dict(_expectations(objects, path)))


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


def _expectations(objects: Iterable[JsonObject], path: Path) -> Iterator[tuple[PodName, Expectation]]:
    for obj in objects:
        if obj.get("kind") == "Pod":
            meta = obj.get("metadata") or {}
            name = PodName(meta.get("namespace") or "default", str(meta.get("name")))
            yield name, _expectation(meta.get("annotations") or {}, f"{path}: pod {name.name}")


def _expectation(annotations: JsonObject, where: str) -> Expectation:
    try:
        return Expectation(annotations.get(EXPECT_ANNOTATION, ""))
    except ValueError:
        allowed = ", ".join(Expectation)
        raise ExampleError("read an example", where, f"annotation {EXPECT_ANNOTATION}: one of {allowed}") from None
