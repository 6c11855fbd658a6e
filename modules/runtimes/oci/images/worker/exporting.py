"""Writes an image of the store as an archive: an OCI layout that `docker load` reads, too."""

import io
import json
import os
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from modules.runtimes.oci.images.worker.archive import blob_name
from modules.runtimes.oci.images.worker.conversation import Conversation
from modules.runtimes.oci.images.worker.digests import sha256_of
from modules.runtimes.oci.images.worker.documents import (
    MANIFESTS,
    OCI_MANIFEST,
    kind_of,
    parse_config,
    parse_document,
    parse_manifest,
)
from modules.runtimes.oci.images.worker.errors import MACHINE, ImageWorkError
from modules.runtimes.oci.images.worker.store_layout import StoreLayout

_CONFIG: Final = "application/vnd.oci.image.config.v1+json"
_LAYER: Final = "application/vnd.oci.image.layer.v1.tar"


def export_image(request: Mapping[str, Any], layout: StoreLayout, conversation: Conversation) -> None:
    """Write the image of a request to its `archive`, whole or not at all. Raises ImageWorkError and OSError."""
    target = Path(request["archive"])
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        _write(temporary, layout, request)
        temporary.replace(target)
    except FileNotFoundError as error:
        if not str(error.filename).startswith(str(layout.blobs)):
            raise
        hint = "set modules.edged.discardUnpackedLayers to false, remove the image and pull it again"
        raise ImageWorkError(MACHINE, "the store has not kept the layers as they came", hint) from None
    finally:
        temporary.unlink(missing_ok=True)
    conversation.finish([])


def _write(path: Path, layout: StoreLayout, request: Mapping[str, Any]) -> None:
    documents = {digest: layout.blob(digest).read_bytes() for digest in request["documents"]}
    digest, content = _manifest(request["id"], documents, layout)
    layers = [each.digest for each in parse_manifest(parse_document(content, "the manifest")).layers]
    documents[digest] = content
    with tarfile.open(path, "x", format=tarfile.GNU_FORMAT) as archive:
        for name, text in _names(request, digest, content, layers).items():
            _add(archive, name, io.BytesIO(text), len(text))
        for each, text in documents.items():
            _add(archive, blob_name(each), io.BytesIO(text), len(text))
        for each in dict.fromkeys(layers):
            with layout.blob(each).open("rb") as file:
                _add(archive, blob_name(each), file, os.fstat(file.fileno()).st_size)


def _manifest(config: str, documents: Mapping[str, bytes], layout: StoreLayout) -> tuple[str, bytes]:
    """Return the manifest with its digest; it is made for an image of `docker save`, which came without."""
    for digest, content in documents.items():
        if digest != config and kind_of(parse_document(content, "a manifest of the store")) in MANIFESTS:
            return digest, content
    made = {
        "schemaVersion": 2,
        "mediaType": OCI_MANIFEST,
        "config": _described(config, _CONFIG, len(documents[config])),
        "layers": [
            _described(each, _LAYER, layout.blob(each).stat().st_size)
            for each in parse_config(documents[config]).diff_ids
        ],
    }
    content = json.dumps(made).encode()
    return sha256_of(content), content


def _names(request: Mapping[str, Any], digest: str, manifest: bytes, layers: list[str]) -> dict[str, bytes]:
    """Return the files that list the contents of the archive, for OCI and for Docker."""
    own = _described(digest, kind_of(parse_document(manifest, "the manifest")), len(manifest))
    tags = request["repo_tags"]
    named = [{**own, "annotations": {"io.containerd.image.name": tag}} for tag in tags] or [own]
    saved = {"Config": blob_name(request["id"]), "RepoTags": tags, "Layers": [blob_name(each) for each in layers]}
    files = {
        "oci-layout": {"imageLayoutVersion": "1.0.0"},
        "index.json": {"schemaVersion": 2, "manifests": named},
        "manifest.json": [saved],
    }
    return {name: json.dumps(each).encode() for name, each in files.items()}


def _described(digest: str, kind: str, size: int) -> dict[str, Any]:
    return {"mediaType": kind, "digest": digest, "size": size}


def _add(archive: tarfile.TarFile, name: str, content: Any, size: int) -> None:
    member = tarfile.TarInfo(name)
    member.size = size
    archive.addfile(member, content)
