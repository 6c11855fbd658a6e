"""Layers and archives made entry by entry, also wrong ones."""

import gzip
import hashlib
import io
import json
import platform
import tarfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

ARCHITECTURE: Final = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm"}.get(
    platform.machine(), platform.machine()
)
_TIME: Final = 1_600_000_000

Made = tuple[tarfile.TarInfo, bytes]


def file(name: str, content: bytes = b"", **attributes: Any) -> Made:
    """A regular file."""
    return _made(name, tarfile.REGTYPE, content, mode=attributes.pop("mode", 0o644), **attributes)


def directory(name: str, **attributes: Any) -> Made:
    """A directory."""
    return _made(name, tarfile.DIRTYPE, mode=attributes.pop("mode", 0o755), **attributes)


def symlink(name: str, target: str, **attributes: Any) -> Made:
    """A symbolic link."""
    return _made(name, tarfile.SYMTYPE, linkname=target, **attributes)


def hardlink(name: str, target: str, **attributes: Any) -> Made:
    """A hard link."""
    return _made(name, tarfile.LNKTYPE, linkname=target, **attributes)


def fifo(name: str, **attributes: Any) -> Made:
    """A FIFO."""
    return _made(name, tarfile.FIFOTYPE, **attributes)


def device(name: str, major: int, minor: int, *, block: bool = False, **attributes: Any) -> Made:
    """A device."""
    kind = tarfile.BLKTYPE if block else tarfile.CHRTYPE
    return _made(name, kind, devmajor=major, devminor=minor, **attributes)


def xattrs(**values: bytes) -> dict[str, str]:
    """PAX headers with extended attributes; `__` in a name stands for a dot."""
    return {f"SCHILY.xattr.{name.replace('__', '.')}": value.decode("latin-1") for name, value in values.items()}


def tar(*entries: Made, form: int = tarfile.PAX_FORMAT) -> bytes:
    """A plain tar of the entries, in their order."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=form) as archive:
        for member, content in entries:
            archive.addfile(member, io.BytesIO(content) if member.isreg() else None)
    return buffer.getvalue()


def config_of(layers: Sequence[bytes], **settings: Any) -> bytes:
    """The config of an image of plain layers; for this machine's architecture, unless the settings name another."""
    document = {
        "architecture": settings.pop("architecture", ARCHITECTURE),
        "os": "linux",
        "config": settings,
        "rootfs": {"type": "layers", "diff_ids": [sha256(layer) for layer in layers]},
    }
    return json.dumps(document).encode()


def docker_archive(
    path: Path,
    layers: Sequence[bytes],
    names: Iterable[str] = ("example.org/app:1",),
    pack: Callable[[bytes], bytes] = bytes,
) -> Path:
    """An archive as `docker save` writes it; others pack the layers."""
    config = config_of(layers)
    members = {f"{number}/layer.tar": pack(layer) for number, layer in enumerate(layers)}
    manifest = [{"Config": "config.json", "RepoTags": list(names), "Layers": list(members)}]
    return write_archive(path, {"manifest.json": json.dumps(manifest).encode(), "config.json": config, **members})


def oci_layout(path: Path, layers: Sequence[bytes], annotations: Mapping[str, str]) -> Path:
    """An OCI layout in a tar, with an index in the index and gzip layers."""
    config, packed = config_of(layers), [gzip.compress(layer, 1) for layer in layers]
    manifest = encoded(
        {
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": described(config, "application/vnd.oci.image.config.v1+json"),
            "layers": [described(each, "application/vnd.oci.image.layer.v1.tar+gzip") for each in packed],
        }
    )
    own = described(manifest, "application/vnd.oci.image.manifest.v1+json")
    strange = {**own, "digest": f"sha256:{'0' * 64}", "platform": {"os": "windows", "architecture": "amd64"}}
    inner = encoded(
        {
            "schemaVersion": 2,
            "manifests": [strange, {**own, "platform": {"os": "linux", "architecture": ARCHITECTURE}}],
        }
    )
    outer = {**described(inner, "application/vnd.oci.image.index.v1+json"), "annotations": dict(annotations)}
    blobs = {f"blobs/sha256/{sha256(each)[7:]}": each for each in (config, manifest, inner, *packed)}
    index = encoded({"schemaVersion": 2, "manifests": [outer]})
    return write_archive(path, {"oci-layout": b'{"imageLayoutVersion":"1.0.0"}', "index.json": index, **blobs})


def write_archive(path: Path, members: Mapping[str, bytes]) -> Path:
    """Write a tar of files."""
    path.write_bytes(tar(*(file(name, content) for name, content in members.items())))
    return path


def described(content: bytes, media_type: str) -> dict[str, Any]:
    """A descriptor."""
    return {"mediaType": media_type, "digest": sha256(content), "size": len(content)}


def encoded(document: Mapping[str, Any]) -> bytes:
    """A JSON document."""
    return json.dumps(document).encode()


def sha256(content: bytes) -> str:
    """The digest of content."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _made(name: str, kind: bytes, content: bytes = b"", **attributes: Any) -> Made:
    member = tarfile.TarInfo(name)
    member.type, member.size, member.mtime = kind, len(content), attributes.pop("mtime", _TIME)
    for key, value in attributes.items():
        setattr(member, key, value)
    return member, content
