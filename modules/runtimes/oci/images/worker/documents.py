"""JSON documents of an image: index, manifest and config, checked as far as they are used."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from beehive.nesting import read_json
from modules.runtimes.oci.images.worker.digests import checked_digest
from modules.runtimes.oci.images.worker.errors import invalid
from modules.runtimes.oci.images.worker.limits import LONGEST_MANIFEST, MOST_LAYERS

OCI_INDEX: Final = "application/vnd.oci.image.index.v1+json"
OCI_MANIFEST: Final = "application/vnd.oci.image.manifest.v1+json"
DOCKER_LIST: Final = "application/vnd.docker.distribution.manifest.list.v2+json"
DOCKER_MANIFEST: Final = "application/vnd.docker.distribution.manifest.v2+json"
INDEXES: Final = (OCI_INDEX, DOCKER_LIST)
MANIFESTS: Final = (OCI_MANIFEST, DOCKER_MANIFEST)

_CONFIGS: Final = ("application/vnd.oci.image.config.v1+json", "application/vnd.docker.container.image.v1+json")
_SCHEMA_1: Final = "application/vnd.docker.distribution.manifest.v1"
_MOST_ENTRIES: Final = 1000
_MOST_ITEMS: Final = 10_000
_LARGEST_BLOB: Final = 1 << 40

Document = Mapping[str, Any]


class Descriptor(NamedTuple):
    """A document's description of another document, or of a layer."""

    media_type: str
    digest: str
    size: int
    platform: Document
    annotations: Document


class Manifest(NamedTuple):
    """The parts of one image."""

    config: Descriptor
    layers: tuple[Descriptor, ...]


class Config(NamedTuple):
    """An image's config: its layers' diff ids, its platform, and the settings for its containers."""

    diff_ids: tuple[str, ...]
    platform: Document
    run: dict[str, Any]
    """The fields of edgecore's `ImageConfig`."""


def parse_document(content: bytes, what: str) -> Document:
    """Return a JSON object. Raises ImageWorkError."""
    if len(content) > LONGEST_MANIFEST:
        raise invalid(f"{what} has more than {LONGEST_MANIFEST} bytes")
    try:
        found = read_json(content)
    except ValueError:
        raise invalid(f"{what} is no JSON") from None
    if not isinstance(found, dict):
        raise invalid(f"{what} is no JSON object")
    return found


def kind_of(document: Document, content_type: str = "") -> str:
    """Return the media type of a manifest or index. Raises ImageWorkError for anything else, and for both in one: other
    programs, which look for defects or check signatures, would see another image (CVE-2021-41190).
    """
    if document.get("manifests") and (document.get("layers") or document.get("config")):
        raise invalid("the registry answered with a manifest that is an index, too")
    named = document.get("mediaType")
    if named and content_type and named != content_type and content_type in (*INDEXES, *MANIFESTS):
        raise invalid("the manifest's media type is not the one that the registry announced")
    kind = str(named or content_type)
    if kind.startswith(_SCHEMA_1) or document.get("schemaVersion") == 1:
        raise invalid("the image's manifest has schema 1, which nothing makes since 2017", "push it again")
    if kind in (*INDEXES, *MANIFESTS):
        return kind
    if isinstance(document.get("manifests"), list):
        return OCI_INDEX
    if isinstance(document.get("layers"), list):
        return OCI_MANIFEST
    raise invalid(f"the registry answered with {kind[:80]!r} in the place of a manifest")


def parse_index(document: Document) -> tuple[Descriptor, ...]:
    """Return the entries of an index; entries of unknown media types are left out. Raises ImageWorkError."""
    found = [_descriptor(each) for each in _items(document, "manifests", _MOST_ENTRIES)]
    return tuple(each for each in found if each.media_type in (*INDEXES, *MANIFESTS))


def parse_manifest(document: Document) -> Manifest:
    """Return the parts of a manifest. Raises ImageWorkError."""
    config = _descriptor(document.get("config"))
    if config.media_type not in _CONFIGS:
        raise invalid(f"it is no container image but an artifact of the type {config.media_type[:80]!r}")
    layers = _items(document, "layers", MOST_LAYERS)
    for each in layers:
        if isinstance(each, dict) and each.get("urls"):
            raise invalid("a layer is foreign: it must be fetched from elsewhere, which is not done")
    found = tuple(_descriptor(each) for each in layers)
    if any("+encrypted" in each.media_type for each in found):
        raise invalid("a layer is encrypted")
    return Manifest(config, found)


def parse_config(content: bytes) -> Config:
    """Return an image's config. Raises ImageWorkError."""
    document = parse_document(content, "the image's config")
    rootfs = _object(document, "rootfs")
    diff_ids = tuple(checked_digest(each) for each in _items(rootfs, "diff_ids", MOST_LAYERS))
    platform = {key: _text(document, key) for key in ("os", "architecture", "variant")}
    return Config(diff_ids, platform, _run(_object(document, "config")))


def _run(settings: Document) -> dict[str, Any]:
    return {
        "entrypoint": _texts(settings, "Entrypoint"),
        "command": _texts(settings, "Cmd"),
        "environment": _texts(settings, "Env"),
        "user": _text(settings, "User"),
        "working_directory": _text(settings, "WorkingDir"),
        "stop_signal": _text(settings, "StopSignal"),
        "volumes": sorted(_object(settings, "Volumes")),
        "labels": {key: str(value) for key, value in _object(settings, "Labels").items()},
    }


def _descriptor(value: Any) -> Descriptor:
    if not isinstance(value, dict):
        raise invalid("a descriptor of the image is missing")
    size = value.get("size")
    if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= _LARGEST_BLOB:
        raise invalid("a descriptor of the image has no usable size")
    return Descriptor(
        _text(value, "mediaType"),
        checked_digest(value.get("digest")),
        size,
        _object(value, "platform"),
        _object(value, "annotations"),
    )


def _items(document: Document, key: str, most: int) -> list[Any]:
    found = document.get(key)
    if found is None:
        return []
    if not isinstance(found, list) or len(found) > most:
        raise invalid(f"the image's {key} are no list, or too many")
    return found


def _object(document: Document, key: str) -> Document:
    found = document.get(key)
    if found is None:
        return {}
    if not isinstance(found, dict) or len(found) > _MOST_ITEMS:
        raise invalid(f"the image's {key} is no object, or too large")
    return found


def _text(document: Document, key: str) -> str:
    found = document.get(key)
    if found is None:
        return ""
    if not isinstance(found, str) or "\0" in found:
        raise invalid(f"the image's {key} is no text")
    return found


def _texts(document: Document, key: str) -> list[str]:
    found = _items(document, key, _MOST_ITEMS)
    if not all(isinstance(each, str) and "\0" not in each for each in found):
        raise invalid(f"the image's {key} is no list of texts")
    return found
