"""Targets of the OCI runtime's images and streams: tars of layers, archives, what registries answer, WebSockets."""

import gzip
import io
import json
import os
from collections.abc import Sequence
from random import Random
from typing import Any, Final

from websockets.client import ClientProtocol
from websockets.protocol import OPEN
from websockets.uri import parse_uri

from modules.runtimes.oci.images.worker.archive import Archive
from modules.runtimes.oci.images.worker.authorization import parse_challenges
from modules.runtimes.oci.images.worker.compression import PlainBytes
from modules.runtimes.oci.images.worker.digests import checked_digest
from modules.runtimes.oci.images.worker.documents import (
    INDEXES,
    MANIFESTS,
    Descriptor,
    kind_of,
    parse_config,
    parse_document,
    parse_index,
    parse_manifest,
)
from modules.runtimes.oci.images.worker.errors import ImageWorkError
from modules.runtimes.oci.images.worker.hosts import address_of
from modules.runtimes.oci.images.worker.importing import images_of
from modules.runtimes.oci.images.worker.layer_tree import components, is_reserved
from modules.runtimes.oci.images.worker.limits import MIB, UnpackLimits
from modules.runtimes.oci.images.worker.platforms import fitting, own_platform
from modules.runtimes.oci.images.worker.proxies import proxy_for
from modules.runtimes.oci.images.worker.references import parse_reference
from modules.runtimes.oci.images.worker.tar_entries import FILE, TarEntries
from modules.runtimes.oci.images.worker.tar_stream import BLOCK, TarStream
from modules.runtimes.streaming.channels import ChannelData, WebSocketChannels
from modules.runtimes.streaming.requests import StreamRequest
from modules.runtimes.streaming.web_socket import LONGEST_MESSAGE, WebSocketLink
from tests.fuzz.mutate import misshape, mutate, pieces
from tests.fuzz.streams import MemoryLink
from tests.fuzz.target import Target, must
from tests.modules.runtimes.oci.images.tars import config_of, described, directory, file, hardlink, symlink, tar

_LIMITS: Final = UnpackLimits(size=8 * MIB, entries=500)
_LAYER: Final = tar(file("a", b"content"), directory("d"), symlink("l", "d"), hardlink("h", "a"), file(".wh.x"))


def _layers() -> Sequence[bytes]:
    """Of each form of tar, and packed."""
    import tarfile  # noqa: PLC0415 - for its constants

    long = tar(file("n" * 150, b"content" * 100), form=tarfile.GNU_FORMAT)
    sparse = {"GNU.sparse.map": "5,1", "GNU.sparse.size": "20", "SCHILY.xattr.user.a": "b"}
    pax = tar(file("s", b"x", pax_headers=sparse))
    return [_LAYER, long, pax, gzip.compress(_LAYER, mtime=0), gzip.compress(pax, mtime=0) * 2]


def _check_layer(data: bytes, _: Random) -> None:
    stored = seen = 0
    try:
        plain = PlainBytes(io.BytesIO(data).read)
        stream = TarStream(plain, _LIMITS, lambda: None)
        for entry in TarEntries(stream, _LIMITS.entries):
            parts = components(entry.name)
            must(not {b"", b".", b".."} & set(parts), "a name stays inside")
            is_reserved(parts)
            must(entry.kind == FILE or not entry.stored, "only files have content")
            seen += 1
            stored += sum(len(chunk) for chunk in stream.chunks(entry.stored))
        stream.digest()
    except ImageWorkError:
        return
    must(seen * BLOCK + stored <= stream.size <= _LIMITS.size, "what is counted is bounded, and all that was read")
    must(plain.consumed == len(data), "all was read")


def _archives() -> Sequence[bytes]:
    saved = [{"Config": "config.json", "RepoTags": ["example.org/app:1"], "Layers": ["0/layer.tar", "link"]}]
    members = (file("config.json", config_of([_LAYER, _LAYER])), file("0/layer.tar", _LAYER))
    docker = tar(file("manifest.json", json.dumps(saved).encode()), *members, symlink("link", "0/layer.tar"))
    config = config_of([_LAYER])
    manifest = json.dumps(_manifest(config, _LAYER)).encode()
    index = {"schemaVersion": 2, "manifests": [described(manifest, MANIFESTS[0])]}
    blobs = (
        file(f"blobs/{described(each, '')['digest'].replace(':', '/')}", each) for each in (config, manifest, _LAYER)
    )
    layout = tar(file("oci-layout", b"{}"), file("index.json", json.dumps(index).encode()), *blobs)
    return [docker, layout]


def _check_archive(data: bytes, _: Random) -> None:
    descriptor = os.memfd_create("archive")
    try:
        os.write(descriptor, data)
        for image in images_of(Archive(descriptor), own_platform()):
            must(len(image.layers) == len(image.config.diff_ids), "each layer has a diff id")
            for layer in image.layers:
                must(layer.offset >= 0 and layer.size >= 0, "a layer is in the archive")
    except ImageWorkError:
        pass
    finally:
        os.close(descriptor)


def _manifest(config: bytes, *layers: bytes) -> dict[str, Any]:
    kinds = "application/vnd.oci.image.config.v1+json", "application/vnd.oci.image.layer.v1.tar"
    return {
        "schemaVersion": 2,
        "mediaType": MANIFESTS[0],
        "config": described(config, kinds[0]),
        "layers": [described(each, kinds[1]) for each in layers],
    }


def _documents() -> Sequence[bytes]:
    config = config_of([_LAYER], Cmd=["a"], Env=["A=b"], Entrypoint=["e"], User="1:2", Labels={"a": "b"}, Volumes={})
    manifest = json.dumps(_manifest(config, _LAYER, b"")).encode()
    entry = {**described(manifest, MANIFESTS[1]), "platform": {"os": "linux", "architecture": "arm", "variant": "v7"}}
    index = {"schemaVersion": 2, "mediaType": INDEXES[1], "manifests": [entry, {**entry, "platform": {}}]}
    return [config, manifest, json.dumps(index).encode()]


def _misshapen(random: Random, seeds: Sequence[bytes]) -> bytes:
    """Well-formed without sense, or not well-formed."""
    if random.random() < 0.5:
        return mutate(random, seeds)
    return json.dumps(misshape(random, json.loads(random.choice(seeds)))).encode()


def _check_document(data: bytes, _: Random) -> None:
    try:
        document = parse_document(data, "it")
        found: tuple[Descriptor, ...] = ()
        if kind_of(document) in INDEXES:
            found = tuple(fitting(parse_index(document), own_platform()))
        else:
            manifest = parse_manifest(document)
            found = (manifest.config, *manifest.layers)
        for each in found:
            must(checked_digest(each.digest) == each.digest and each.size >= 0, "descriptors can be asked for")
    except ImageWorkError:
        pass
    try:
        config = parse_config(data)
    except ImageWorkError:
        return
    must(all(checked_digest(each) == each for each in config.diff_ids), "diff ids are digests")
    json.dumps(config.run)


def _check_words(data: bytes, _: Random) -> None:
    text = data.decode("utf-8", "replace")
    for challenge in parse_challenges(text):
        must(challenge.scheme == challenge.scheme.lower(), "schemes are in lower case")
        address = address_of(challenge.parameters.get("realm", ""))
        must(address is None or "@" not in address.name, "no address has credentials")
    try:
        reference = parse_reference(text)
    except ImageWorkError:
        return
    must(".." not in reference.path.split("/") and "\n" not in reference.repository, "names stay names")
    target = address_of(f"https://{reference.host}")
    if target is not None:
        try:
            proxy_for(target, {"HTTPS_PROXY": text, "NO_PROXY": text})
        except ImageWorkError as error:
            must(text not in str(error) or len(text) < 8, "a proxy's variable is not shown")


_REQUEST: Final = StreamRequest("exec", "c", ("sh",), stdin=True, stdout=True, stderr=True, tty=True)


def _web_socket_bytes() -> Sequence[bytes]:
    """Masked frames of a client: input, size, close of the input, ping, close."""
    client = ClientProtocol(parse_uri("ws://node/"), state=OPEN)
    client.send_binary(b"\x00input" * 20)
    client.send_binary(b'\x04{"Width":80,"Height":24}')
    client.send_ping(b"ping")
    client.send_binary(b"\x00begin", fin=False)
    client.send_continuation(b"end", fin=True)
    client.send_binary(b"\xff\x00")
    whole = b"".join(client.data_to_send())
    client.send_close(1000)
    return [whole, whole + b"".join(client.data_to_send())]


def _check_web_socket(data: bytes, random: Random) -> None:
    link: Any = MemoryLink()
    protocol = random.choice(("v5.channel.k8s.io", "v4.channel.k8s.io", "base64.channel.k8s.io"))
    channels = WebSocketChannels(WebSocketLink(link, protocol), _REQUEST)
    got = 0
    try:
        for link.coming in pieces(random, data):
            for event in channels.receive() or ():
                got += len(event.data) if isinstance(event, ChannelData) else 0
    except ValueError:
        pass
    must(got <= len(data) <= LONGEST_MESSAGE, "no byte comes twice")
    must(link.sent <= 1024 + 2 * len(data), "answers are bounded")
    channels.finish({"status": "Success"})


TARGETS: Final = (
    Target("layers", _layers, _check_layer, share=0.5),
    Target("archives of images", _archives, _check_archive, share=0.3),
    Target("documents of images", _documents, _check_document, share=0.5, make=_misshapen),
    Target(
        "words of registries",
        lambda: [
            b'Bearer realm="https://auth.test/token",service="registry.test",scope="repository:a/b:pull"',
            b'Basic realm="a \\"b\\"", Bearer realm=x, error="invalid_token"',
            b"registry.test:5000/team/app:1.2@sha256:" + b"a" * 64,
            b"http://user:password@proxy.test:3128",
            b".test,10.0.0.0/8,*.b:80,[fd00::1]",
        ],
        _check_words,
    ),
    Target("web sockets of a command", _web_socket_bytes, _check_web_socket),
)
