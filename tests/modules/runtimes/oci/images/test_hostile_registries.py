"""Registries that fail, lie, stall, redirect, and send without an end."""

import fcntl
import itertools
import json
import os
import shutil
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock

import pytest

from beehive.clock import RealClock
from modules.runtimes.oci.images import ImageStore, PullSettings
from modules.runtimes.oci.images.errors import (
    BadRequestError,
    NoSuchObjectError,
    PermissionDeniedError,
    RegistryUnavailableError,
    RequestRefusedError,
    TooManyError,
)
from modules.runtimes.oci.images.worker import pulling
from modules.runtimes.oci.images.worker.authorization import RegistryCredentials
from modules.runtimes.oci.images.worker.documents import Descriptor
from modules.runtimes.oci.images.worker.errors import ImageWorkError
from modules.runtimes.oci.images.worker.hosts import RegistryHost, ServerAddress, address_of
from modules.runtimes.oci.images.worker.http_exchange import HttpExchange, _PacedReader
from modules.runtimes.oci.images.worker.layer_progress import LayersProgress
from modules.runtimes.oci.images.worker.limits import GIB, MIB, UnpackLimits
from modules.runtimes.oci.images.worker.proxies import HttpProxy
from modules.runtimes.oci.images.worker.pulling import Downloads
from modules.runtimes.oci.images.worker.repository import Repository
from modules.runtimes.oci.images.worker.retries import RetryPolicy
from modules.runtimes.oci.images.worker.store_layout import StoreLayout
from tests.modules.runtimes.oci.images.registry import (
    DOCKER_MANIFEST,
    OCI_CONFIG,
    OCI_INDEX,
    OCI_MANIFEST,
    Fault,
    Handler,
    TestRegistry,
    body,
    certificates,
    cut,
    endless,
    redirect,
    stall,
    status,
)
from tests.modules.runtimes.oci.images.tars import described, encoded, file, sha256, tar
from tests.modules.runtimes.oci.images.test_pulls import LAYERS, RIGHT, pull
from tests.support.patience import PATIENCE

_LARGE = [tar(file("large", bytes(range(256)) * 4000))]


@pytest.fixture
def store(scratch: Path) -> ImageStore:
    """A store that waits hardly at all."""
    settings = PullSettings(attempts=3, first_delay=0.001)
    return ImageStore(scratch / "images", RealClock(), scratch / "certs.d", pulls=settings)


@pytest.fixture
def registry() -> Iterator[TestRegistry]:
    """A registry with an image of one layer, which is not compressed."""
    with TestRegistry() as started:
        started.add(_LARGE, pack=lambda layer: layer)
        yield started


def _name(registry: TestRegistry) -> str:
    return f"{registry.address}/team/app:1"


def _layer(registry: TestRegistry) -> tuple[str, bytes]:
    (digest,) = registry.layer_digests()
    return digest, registry.blobs[digest]


def suppressing(kind: type[Exception], action: Callable[[], object]) -> Callable[[], None]:
    """Return the action, which may fail so."""

    def run() -> None:
        with suppress(kind):
            action()

    return run


def _nothing_stays(store: ImageStore) -> None:
    assert list(store.layout.layers.iterdir()) == []
    assert list(store.layout.blobs.glob("*/*")) == []


@pytest.mark.parametrize("code", [408, 429, 500, 502, 503, 504])
@pytest.mark.extended
def test_errors_that_may_pass_are_tried_again(store: ImageStore, registry: TestRegistry, code: int) -> None:
    """Of manifests and of blobs."""
    registry.fail("/manifests/1", status(code), status(code))
    registry.fail(_layer(registry)[0], status(code))
    assert pull(store, _name(registry))


@pytest.mark.extended
def test_other_errors_are_final(store: ImageStore, registry: TestRegistry) -> None:
    """And the last of several that pass too, with what the registry says."""
    registry.fail("/manifests/1", status(400))
    with pytest.raises(RegistryUnavailableError, match="answers 400"):
        pull(store, _name(registry))
    text = b'{"errors": [{"code": "DENIED", "message": "no\\u0000pe"}]}'
    registry.fail("/manifests/1", body(text, 403))
    with pytest.raises(PermissionDeniedError, match=r"refuses \(DENIED: no pe\)"):
        pull(store, _name(registry))
    assert len(registry.paths("/manifests/1")) == 2
    registry.fail("/manifests/1", *[status(500)] * 3)
    with pytest.raises(RegistryUnavailableError, match="answers 500"):
        pull(store, _name(registry))
    assert len(registry.paths("/manifests/1")) == 5


@pytest.mark.extended
def test_a_registry_that_asks_for_a_long_pause_is_left_alone(store: ImageStore, registry: TestRegistry) -> None:
    """A short `Retry-After` is waited for."""
    registry.fail("/manifests/1", status(429, Retry_After="0"))
    assert pull(store, _name(registry))
    registry.seen.clear()
    registry.fail("/manifests/2", status(429, Retry_After="3600"))
    with pytest.raises(RegistryUnavailableError, match="answers 429"):
        pull(store, f"{registry.address}/team/app:2")
    assert len(registry.seen) == 1


@pytest.mark.extended
def test_a_registry_that_is_not_there_cannot_be_reached(store: ImageStore) -> None:
    """Its name is in the error."""
    with TestRegistry() as gone:
        address = gone.address
    with pytest.raises(RegistryUnavailableError, match=rf"{address} cannot be reached"):
        pull(store, f"{address}/team/app:1")


@pytest.mark.parametrize("line", [b"x" * 60_000, b"HTTP/9" + b"x" * 60_000 + b" 200 OK"])
@pytest.mark.extended
def test_an_error_quotes_little_of_a_registry(store: ImageStore, registry: TestRegistry, line: bytes) -> None:
    """It becomes the status of a container, and an Event."""

    def answer(handler: Handler) -> bool:
        handler.wfile.write(line + b"\r\n\r\n")
        handler.close_connection = True
        return True

    registry.fail("/manifests/1", *[answer] * 5)
    with pytest.raises(RegistryUnavailableError, match="cannot be reached") as found:
        pull(store, _name(registry))
    assert len(str(found.value)) < 400


@pytest.mark.extended
def test_a_blob_whose_connection_ends_goes_on_where_it_was(store: ImageStore, registry: TestRegistry) -> None:
    """With a range; also in another pull, after the first has failed."""
    digest, content = _layer(registry)
    registry.fail(digest, cut(content, 300_000))
    assert pull(store, _name(registry))
    assert [each.range for each in registry.seen if each.path.endswith(digest)] == ["", "bytes=300000-"]


@pytest.mark.extended
def test_a_later_pull_resumes_an_earlier_ones_download(
    store: ImageStore, registry: TestRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The part stays in the store for a day."""
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(total=1000, free=500))
    digest, content = _layer(registry)
    registry.fail(digest, cut(content, 300_000), status(404))
    with pytest.raises(NoSuchObjectError):
        pull(store, _name(registry))
    registry.seen.clear()
    assert pull(store, _name(registry))
    assert [each.range for each in registry.seen if each.path.endswith(digest)] == ["bytes=300000-"]


@pytest.mark.parametrize(
    "wrong",
    [
        body,
        lambda content: body(content[100:], 206, Content_Range=f"bytes 100-{len(content) - 1}/{len(content)}"),
        lambda _: status(416),
        lambda content: body(bytes(len(content) - 300_000), 206, Content_Range="bytes 300000-"),
    ],
    ids=["whole", "other range", "no range", "other content"],
)
@pytest.mark.extended
def test_a_resumption_that_goes_wrong_begins_again(
    store: ImageStore, registry: TestRegistry, wrong: Callable[[bytes], Fault]
) -> None:
    """A server may know no ranges, or answer another one."""
    digest, content = _layer(registry)
    registry.fail(digest, cut(content, 300_000), wrong(content))
    assert pull(store, _name(registry))


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (body(b"x" * len(_LARGE[0])), "has another content"),
        (body(_LARGE[0] + b"more"), "sends more than"),
        (endless, "sends more than"),
    ],
)
@pytest.mark.extended
def test_blobs_with_another_digest_are_refused(
    store: ImageStore, registry: TestRegistry, fault: Fault, reason: str
) -> None:
    """Immediately, and a later pull does not go on with them."""
    digest, _ = _layer(registry)
    registry.fail(digest, fault)
    with pytest.raises(BadRequestError, match=reason):
        pull(store, _name(registry))
    _nothing_stays(store)
    assert pull(store, _name(registry))


@pytest.mark.slow
def test_a_blob_that_stalls_is_given_up(scratch: Path, registry: TestRegistry) -> None:
    """And asked for again."""
    impatient = PullSettings(attempts=4, first_delay=0.001, stall_seconds=2.0)
    store = ImageStore(scratch / "images", RealClock(), scratch / "certs.d", pulls=impatient)
    digest, content = _layer(registry)
    registry.fail(digest, stall(content[:1000]), stall())
    assert pull(store, _name(registry))
    registry.fail("/manifests/2", *[stall()] * 4)
    with pytest.raises(RegistryUnavailableError, match="timed out"):
        pull(store, f"{registry.address}/team/app:2")


@pytest.mark.extended
def test_manifests_of_another_digest_are_refused(store: ImageStore, registry: TestRegistry) -> None:
    """Other than the requested digest, or the registry's own."""
    right, kind = registry.manifests["1"]
    asked = f"{registry.address}/team/app@{sha256(right)}"
    registry.fail(sha256(right), body(right + b" ", Content_Type=kind))
    with pytest.raises(BadRequestError, match="has another content"):
        pull(store, asked)
    registry.fail("/manifests/1", body(right, Content_Type=kind, Docker_Content_Digest=f"sha256:{'0' * 64}"))
    with pytest.raises(BadRequestError, match="announces another digest"):
        pull(store, _name(registry))
    _nothing_stays(store)


@pytest.mark.parametrize(
    ("content", "kind", "reason"),
    [
        (b"[" * 100_000, OCI_MANIFEST, "no JSON"),
        (b"<html>", "text/html", "no JSON"),
        (b"{}", "text/html", "in the place of a manifest"),
        (b" " * (4 * MIB + 1), OCI_MANIFEST, "more than 4194304 bytes"),
        (encoded({"schemaVersion": 1}), "application/vnd.docker.distribution.manifest.v1+prettyjws", "schema 1"),
        (encoded({"mediaType": OCI_INDEX, "manifests": []}), OCI_MANIFEST, "not the one that the registry announced"),
        (encoded({"mediaType": OCI_INDEX, "manifests": {}}), OCI_INDEX, "no list"),
        (encoded({"config": {"size": 0}, "manifests": [{}]}), OCI_MANIFEST, "is an index, too"),
        (encoded({"layers": [{}], "manifests": [{}]}), OCI_INDEX, "is an index, too"),
        (encoded({"config": {}, "layers": []}), OCI_MANIFEST, "no usable size"),
        (encoded({"config": described(b"", "application/x-thing"), "layers": []}), OCI_MANIFEST, "an artifact"),
        (encoded({"config": {**described(b"", OCI_CONFIG), "digest": "sha256:../../x"}}), OCI_MANIFEST, "no digest"),
        (encoded({"config": {**described(b"", OCI_CONFIG), "size": 5 * MIB}}), OCI_MANIFEST, "config has more than"),
        (encoded({"config": described(b"", OCI_CONFIG), "layers": [{"urls": ["x"]}]}), OCI_MANIFEST, "foreign"),
        (
            encoded({"config": described(b"", OCI_CONFIG), "layers": [described(b"", "a/b+encrypted")]}),
            OCI_MANIFEST,
            "encrypted",
        ),
        (encoded({"config": described(b"", OCI_CONFIG), "layers": [{}] * 501}), OCI_MANIFEST, "too many"),
    ],
)
@pytest.mark.extended
def test_wrong_manifests_are_refused_with_a_reason(
    store: ImageStore, registry: TestRegistry, content: bytes, kind: str, reason: str
) -> None:
    """Before anything else is fetched."""
    registry.put(content, kind, "1")
    with pytest.raises(BadRequestError, match=reason):
        pull(store, _name(registry))
    assert registry.paths("/blobs/") == []
    _nothing_stays(store)


@pytest.mark.extended
def test_a_config_that_fits_not_its_manifest_is_refused(store: ImageStore, registry: TestRegistry) -> None:
    """Another number of layers, or another content than its digest."""
    manifest = json.loads(registry.manifests["1"][0])
    config = manifest["config"]["digest"]
    registry.fail(config, body(registry.blobs[config].replace(b"linux", b"xunil")))
    with pytest.raises(BadRequestError, match="another content"):
        pull(store, _name(registry))
    registry.put(encoded({**manifest, "layers": manifest["layers"] * 2}), OCI_MANIFEST, "1")
    with pytest.raises(BadRequestError, match="not as many layers"):
        pull(store, _name(registry))


@pytest.mark.extended
def test_indexes_that_contain_themselves_end(store: ImageStore, registry: TestRegistry) -> None:
    """One level below the first is as deep as images go."""
    index = registry.add_index([registry.entry(sha256(registry.manifests["1"][0]))], "a")
    for tag in "bc":
        index = registry.add_index([registry.entry(index)], tag)
    with pytest.raises(BadRequestError, match="nested too deeply"):
        pull(store, f"{registry.address}/team/app:c")


@pytest.mark.extended
def test_an_image_that_does_not_fit_on_the_disk_is_not_fetched(scratch: Path, registry: TestRegistry) -> None:
    """Its size is known before."""
    store = ImageStore(scratch / "full", RealClock(), scratch, UnpackLimits(reserve=1 << 20 << 40))
    with pytest.raises(TooManyError, match="do not fit on the disk"):
        pull(store, _name(registry))
    assert [each for each in registry.paths("/blobs/") if each.endswith(_layer(registry)[0])] == []
    with pytest.raises(TooManyError, match="more than"):
        pull(ImageStore(scratch / "s", RealClock(), scratch, UnpackLimits(size=MIB // 2, reserve=GIB)), _name(registry))


# redirects


@pytest.mark.extended
def test_a_redirect_is_followed_without_the_authorization(store: ImageStore) -> None:
    """To a server of another name; its own headers are kept from it, too."""
    with TestRegistry(wants="basic") as registry, TestRegistry() as elsewhere:
        registry.add(LAYERS)
        elsewhere.blobs = registry.blobs
        path = f"https://{elsewhere.address}/v2/x/blobs/"
        for digest in registry.layer_digests():
            registry.fail(digest, status(401, WWW_Authenticate='Basic realm="x"'), redirect(path + digest))
        with pytest.raises(RequestRefusedError):
            pull(store, _name(registry), RIGHT)
        assert elsewhere.seen == []


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_a_token_in_a_body_reaches_no_other_server(code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """An identity token is posted to the token server, which may lead elsewhere."""
    sent: list[tuple[str, str, bytes | None]] = []

    def connect(_self: HttpExchange, target: ServerAddress, _proxy: object) -> Mock:
        is_first = target.host == "auth.example"
        answer = Mock(status=code if is_first else 200, getheader=lambda _name: "https://other.example/x")
        connection = Mock(getresponse=lambda: answer)
        connection.request = lambda method, _way, body, _headers: sent.append((target.host, method, body))
        return connection

    monkeypatch.setattr(HttpExchange, "_connect", connect)
    address = ServerAddress("https", "registry.example", 443)
    exchange = HttpExchange(RegistryHost(address, "/v2", is_registry=True), 60.0)
    with exchange.get("https://auth.example/token", {}, method="POST", body=b"secret"):
        assert sent == [("auth.example", "POST", b"secret"), ("other.example", "GET" if code == 303 else "POST", None)]


def test_headers_for_a_registry_reach_no_other_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of its hosts.toml, which are before ours, and its authorization; the answer comes from where it leads."""
    sent: list[tuple[str, dict[str, str]]] = []

    def connect(_self: HttpExchange, target: ServerAddress, _proxy: object) -> Mock:
        is_first = target.host == "registry.example"
        answer = Mock(status=307 if is_first else 200, getheader=lambda _name: "https://other.example/x")
        connection = Mock(getresponse=lambda: answer)
        connection.request = lambda _method, _way, _body, headers: sent.append((target.host, headers))
        return connection

    monkeypatch.setattr(HttpExchange, "_connect", connect)
    host = RegistryHost(ServerAddress("https", "registry.example", 443), "/v2", is_registry=True)
    exchange = HttpExchange(host._replace(headers=(("X-Key", "own"), ("Authorization", "of the file"))), 60.0)
    with exchange.get("https://registry.example/v2/", {"Range": "bytes=5-"}, authorization="Basic own"):
        (first, second) = sent
    common = {"User-Agent": "edgecore", "Range": "bytes=5-"}
    assert first[1] == {**common, "Host": "registry.example", "Authorization": "of the file", "X-Key": "own"}
    assert second[1] == {**common, "Host": "other.example"}


@pytest.mark.extended
def test_redirects_over_tls_reach_another_server(store: ImageStore, scratch: Path) -> None:
    """As registries send clients to a CDN: authorization stays at home, ranges go along."""
    ca, server = certificates(scratch)
    with TestRegistry(server, "basic") as registry, TestRegistry(server) as cdn:
        registry.add(LAYERS)
        cdn.blobs = registry.blobs
        for digest in registry.layer_digests():
            registry.fail(digest, *[redirect(f"https://{cdn.address}/blobs/{digest}")] * 2)
        first = registry.layer_digests()[0]
        cdn.fail(first, cut(cdn.blobs[first], 50))
        path = scratch / "certs.d" / registry.address
        path.mkdir(parents=True)
        (path / "hosts.toml").write_text(f'server = "https://{registry.address}"\nca = "{ca}"\n')
        assert pull(store, _name(registry), RIGHT)
        assert {each.authorization for each in cdn.seen} == {""}
        assert "bytes=50-" in {each.range for each in cdn.seen}


@pytest.mark.extended
def test_another_server_names_no_token_server(store: ImageStore, scratch: Path) -> None:
    """Where a registry redirects to could have the credentials sent anywhere, its own token server first of all."""
    ca, server = certificates(scratch)
    with TestRegistry(server, "basic") as registry, TestRegistry(server, "bearer") as cdn:
        registry.add(LAYERS)
        for digest in registry.layer_digests():
            registry.fail(digest, *[redirect(f"https://{cdn.address}/blobs/{digest}")] * 3)
        path = scratch / "certs.d" / registry.address
        path.mkdir(parents=True)
        (path / "hosts.toml").write_text(f'server = "https://{registry.address}"\nca = "{ca}"\n')
        with pytest.raises(PermissionDeniedError):
            pull(store, _name(registry), RIGHT)
        assert {each.authorization for each in cdn.seen} == {""}
        assert not cdn.paths("/token")


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("http://127.0.0.1:1/x", "without TLS"),
        ("http://169.254.169.254/latest/meta-data", "without TLS"),
        ("file:///etc/passwd", "no URL of HTTP"),
        ("ftp://example.org/x", "no URL of HTTP"),
        ("https://user:password@example.org/", "no URL of HTTP"),
        ("https://[::1", "no URL of HTTP"),
        ("/v2/team/app/manifests/1", "in a circle"),
        ("https://" + "a" * 17_000, "no URL of HTTP"),
        ("https://" + "a" * 64 + ".example/", "no URL of HTTP"),
        ("https://a..example/", "no URL of HTTP"),
        ("/caf\xe9", "no URL of HTTP"),
        ("https://localhost:1/", "an address of this machine itself"),
        ("https://2130706433:10250/", "an address of this machine itself"),
        ("https://[::ffff:127.0.0.1]:1/", "an address of this machine itself"),
        ("https://169.254.169.254/latest/meta-data", "an address of this machine itself"),
    ],
)
@pytest.mark.extended
def test_redirects_that_lead_astray_are_refused(
    store: ImageStore, registry: TestRegistry, target: str, reason: str
) -> None:
    """Without TLS to another server, to other schemes, in circles, and to this machine, whether or not something
    listens there: who has named the image reads the error.
    """
    registry.fail("/manifests/1", *[redirect(target)] * 6)
    with pytest.raises(BadRequestError, match=reason):
        pull(store, _name(registry))


@pytest.mark.parametrize("target", ["https://" + "a" * 64 + ".example/", "/caf\xe9", "/a b"])
@pytest.mark.extended
def test_a_layer_that_is_redirected_astray_ends_the_pull(
    store: ImageStore, registry: TestRegistry, target: str
) -> None:
    """A thread fetches it, and the pull waits for that: it waited for ever."""
    registry.fail(_layer(registry)[0], *[redirect(target)] * 3)
    with pytest.raises(RequestRefusedError):
        pull(store, _name(registry))


def test_whatever_goes_wrong_with_a_layer_ends_the_pull(scratch: Path) -> None:
    """Also what nobody expected."""

    class Broken:
        name = "example.org"

        def fetch(self, *_: object) -> None:
            raise ArithmeticError("out of the blue")

    layer = Descriptor("", sha256(b""), 0, {}, {})
    layout = StoreLayout(scratch)
    layout.make()
    downloads = Downloads(Broken(), layout, [layer], LayersProgress([layer], lambda _: None))  # type: ignore[arg-type]
    downloads.start(1, 0)
    with pytest.raises(ImageWorkError, match="out of the blue"):
        downloads.wait(layer.digest)


@pytest.mark.extended
def test_a_registry_that_drips_does_not_hold_the_layers_of_others(store: ImageStore, scratch: Path) -> None:
    """Whoever names a layer of another image as its own, and sends it slowly, would keep that from being pulled."""
    with TestRegistry() as slow, TestRegistry() as right:
        for each in (slow, right):
            each.add(_LARGE, pack=lambda layer: layer)
        began = threading.Event()
        digest, content = _layer(slow)

        def drip(handler: Handler) -> bool:
            began.set()
            return stall(content[:1000])(handler)

        slow.fail(digest, drip)
        held = threading.Thread(target=suppressing(RequestRefusedError, lambda: pull(store, _name(slow))))
        held.start()
        assert began.wait(PATIENCE)
        assert pull(store, _name(right))
        slow.released.set()
        held.join()


_BLOB = bytes(range(256)) * 4000


def _downloads(registry: TestRegistry, scratch: Path, *sizes: int) -> list[Downloads]:
    """Return pulls of one blob, each with another size for it."""
    layout = StoreLayout(scratch)
    layout.make()
    registry.blobs[sha256(_BLOB)] = _BLOB
    address = address_of(f"http://{registry.address}")
    assert address is not None
    endpoint = RegistryHost(address, "/v2", is_registry=True)
    repository = Repository(registry.address, "a", [endpoint], RegistryCredentials(), RetryPolicy(attempts=1))
    layers = [Descriptor("", sha256(_BLOB), size, {}, {}) for size in sizes]
    return [Downloads(repository, layout, [each], LayersProgress([each], lambda _: None)) for each in layers]


def test_the_disk_is_looked_at_while_layers_come(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other pulls fill it as well, and each had seen that its own layers have room."""
    free = iter([10**9, 10])
    monkeypatch.setattr(pulling, "LOOK_AT_DISK_EVERY", MIB // 2)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=next(free)))
    with TestRegistry() as registry:
        (downloads,) = _downloads(registry, scratch, len(_BLOB))
        downloads.start(1, 1000)
        with pytest.raises(ImageWorkError, match="would stay free"):
            downloads.wait(sha256(_BLOB))


def test_the_rest_of_a_layer_fits_where_the_whole_would_not(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An earlier pull has fetched the most of it, and that has its place on the disk."""
    with TestRegistry() as registry:
        first, second = _downloads(registry, scratch, len(_BLOB), len(_BLOB))
        registry.fail(sha256(_BLOB), cut(_BLOB, len(_BLOB) - 500))
        first.start(1, 0)
        with pytest.raises(ImageWorkError):
            first.wait(sha256(_BLOB))
        monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1500))
        with pytest.raises(ImageWorkError, match="do not fit"):
            second.start(1, 1001)
        second.start(1, 1000)
        assert second.wait(sha256(_BLOB)).is_right()


def test_a_layer_that_another_pull_fetches_is_waited_for(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both would write into its file."""
    locks, waits, lock = list[int](), threading.Event(), fcntl.flock

    def flock(descriptor: int, operation: int) -> None:
        locks.append(descriptor)
        if len(locks) > 1:
            waits.set()
        lock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", flock)
    with TestRegistry() as registry:
        registry.fail(sha256(_BLOB), lambda _: not waits.wait(PATIENCE))
        pulls = _downloads(registry, scratch, len(_BLOB), len(_BLOB))
        for each in pulls:
            each.start(1, 0)
        assert all(each.wait(sha256(_BLOB)).is_right() for each in pulls)
        assert len(registry.paths("/blobs/")) == 1


def test_a_manifest_that_lies_about_a_layers_size_does_not_cut_off_another_pulls(scratch: Path) -> None:
    """The other pull unpacks the file of the layer meanwhile, or is about to keep it as the layer."""
    with TestRegistry() as registry:
        honest, lying = _downloads(registry, scratch, len(_BLOB), 1)
        honest.start(1, 0)
        fetched = honest.wait(sha256(_BLOB))
        lying.start(1, 0)
        with pytest.raises(ImageWorkError, match="sends more than"):
            lying.wait(sha256(_BLOB))
        assert os.pread(fetched.descriptor, len(_BLOB) + 1, 0) == _BLOB


@pytest.mark.parametrize("spread", ["headers", "chunk size", "body"])
def test_answers_must_come_at_a_least_rate(spread: str) -> None:
    """Whatever part of them drips: a byte a minute is no silence, and a manifest would take years."""
    times = itertools.count(0.0, 30.0)
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n"
    begin, drop = {
        "headers": (head, b"X-Pad: "),
        "chunk size": (head + b"\r\n", b"0000"),
        "body": (head + b"\r\nfffffff\r\n", b"x"),
    }[spread]
    with socket.create_server(("127.0.0.1", 0)) as listener, ExitStack() as stack:
        peers: list[socket.socket] = []

        def now() -> float:
            """Return the next time, until which the registry has sent one drop more."""
            if not peers:
                peers.append(stack.enter_context(listener.accept()[0]))
                while not peers[0].recv(1 << 16).endswith(b"\r\n\r\n"):
                    pass
                peers[0].sendall(begin)
            peers[0].sendall(drop)
            return next(times)

        address = address_of(f"http://127.0.0.1:{listener.getsockname()[1]}")
        assert address is not None
        exchange = HttpExchange(RegistryHost(address, "/v2", is_registry=True), 60.0, now)
        with (
            pytest.raises(TimeoutError, match="bytes came in 60 s"),
            exchange.get(f"http://{address.name}/", {}) as response,
        ):
            while response.read1(1):
                pass


def test_an_answer_that_came_fast_must_not_drip_later() -> None:
    """Each minute has to bring its bytes; one that brought many makes up for no other."""
    times, counts = iter([0.0, 61.0, 61.0, 100.0, 122.0]), iter([20_000, 1, 1])
    raw = SimpleNamespace(readinto=lambda _buffer: next(counts), close=lambda: None)
    reader = _PacedReader(cast("Any", raw), 60.0, times.__next__)
    assert [reader.readinto(bytearray(1)) for _ in range(2)] == [20_000, 1]
    with pytest.raises(TimeoutError, match="bytes came in 60 s"):
        reader.readinto(bytearray(1))


def test_an_answer_comes_in_no_small_pieces() -> None:
    """Each read of a byte takes as long as one of kilobytes."""
    raw = SimpleNamespace(readinto=len, close=lambda: None)
    reader = _PacedReader(cast("Any", raw), 60.0, lambda: 0.0)
    for _ in range(3):
        assert reader.readinto(bytearray(64_000)) == 64_000
    with pytest.raises(OSError, match="more than 4096 pieces of less than 64 bytes"):
        for _ in range(8000):
            reader.readinto(bytearray(1))


@pytest.mark.parametrize(
    ("begin", "flood"),
    [
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 1000),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n", b"X: y\r\n" * 5000),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1;" + b"x" * 60_000 + b"\r\n \r\n"),
    ],
    ids=["100 Continue", "trailers", "extensions of chunks"],
)
@pytest.mark.extended
def test_an_answer_that_brings_nothing_ends(
    store: ImageStore, registry: TestRegistry, begin: bytes, flood: bytes
) -> None:
    """However fast it comes: a processor worked for such a registry for ever."""

    def answer(handler: Handler) -> bool:
        handler.close_connection = True
        with suppress(OSError):
            handler.wfile.write(begin)
            while not handler.registry.released.is_set():
                handler.wfile.write(flood)
        return True

    registry.fail("/manifests/1", *[answer] * 3)
    with pytest.raises(RegistryUnavailableError, match="bytes came beside the body"):
        pull(store, _name(registry))


@pytest.mark.extended
def test_a_layer_comes_in_no_small_chunks(store: ImageStore, registry: TestRegistry) -> None:
    """One read of the connection may have many."""

    def chunks(handler: Handler) -> bool:
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        handler.wfile.write(b"1\r\nx\r\n" * 10_000)
        return True

    registry.fail(_layer(registry)[0], *[chunks] * 3)
    with pytest.raises(RegistryUnavailableError, match="more than 4096 pieces"):
        pull(store, _name(registry))


@pytest.mark.extended
def test_a_token_server_without_tls_is_not_trusted_by_a_registry_with_it(store: ImageStore, scratch: Path) -> None:
    """The password would be readable on the way."""
    ca, server = certificates(scratch)
    with TestRegistry(server, "bearer") as registry, TestRegistry() as tokens:
        registry.add(LAYERS)
        registry.realm = f"http://{tokens.address}/token"
        path = scratch / "certs.d" / registry.address
        path.mkdir(parents=True)
        (path / "hosts.toml").write_text(f'server = "https://{registry.address}"\nca = "{ca}"\n')
        with pytest.raises(BadRequestError, match="a token server without TLS"):
            pull(store, _name(registry), RIGHT)
        assert tokens.seen == []


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.extended
def test_a_registry_of_this_machine_sends_the_node_nowhere_else_on_it(
    store: ImageStore, scratch: Path, scheme: str
) -> None:
    """As a pod with a host port may be one: the node would ask any server here, and pass on what it answers."""
    _, server = certificates(scratch)
    with TestRegistry(None, "bearer") as registry, TestRegistry(server if scheme == "https" else None) as service:
        registry.add(LAYERS)
        registry.realm = f"{scheme}://{service.address}/api/v1/pods?x=y"
        with pytest.raises(RequestRefusedError, match=r"a token server without TLS|an address of this machine itself"):
            pull(store, _name(registry))
        assert service.seen == []


@pytest.mark.parametrize(
    "answer", [b"", b"[]", b"[" * 100_000, b'{"token": 5}', b'{"token": "a\\r\\nX: y"}', b" " * (MIB + 1)]
)
@pytest.mark.extended
def test_token_servers_that_answer_strangely_are_refused(store: ImageStore, answer: bytes) -> None:
    """Nothing of it gets into a header."""
    with TestRegistry(wants="bearer") as registry:
        registry.add(LAYERS)
        registry.fail("/token", *[body(answer)] * 5)
        with pytest.raises(RequestRefusedError, match=r"token|more than"):
            pull(store, _name(registry), RIGHT)


@pytest.mark.extended
def test_a_challenge_that_never_ends_is_left(store: ImageStore) -> None:
    """A registry that refuses every token of its own token server."""
    with TestRegistry(wants="bearer") as registry:
        registry.add(LAYERS)
        again = f'Bearer realm="http://{registry.address}/token",service="a \\"quoted\\" service"'
        scope = ',scope="repository:team/app:pull"'
        registry.fail("/manifests/1", *[status(401, WWW_Authenticate=again + scope)] * 10)
        with pytest.raises(PermissionDeniedError):
            pull(store, _name(registry), RIGHT)
        assert len(registry.seen) < 8


@pytest.mark.extended
def test_a_mirror_that_lies_is_passed_over(store: ImageStore, scratch: Path) -> None:
    """What it sends is thrown away, and the registry asked."""
    with TestRegistry() as mirror, TestRegistry() as registry:
        registry.add(_LARGE, pack=lambda layer: layer)
        mirror.manifests = dict(registry.manifests)
        mirror.blobs = {digest: bytes(len(content)) for digest, content in registry.blobs.items()}
        path = scratch / "certs.d" / registry.address
        path.mkdir(parents=True)
        (path / "hosts.toml").write_text(f'server = "http://{registry.address}"\n[host."http://{mirror.address}"]\n')
        image = store.find(pull(store, _name(registry)))
        assert image is not None
        assert (store.layout.tree(image.chain[0]) / "large").stat().st_size == 256 * 4000


@pytest.mark.extended
def test_a_layer_that_cannot_be_unpacked_leaves_no_part(store: ImageStore, registry: TestRegistry) -> None:
    """Another pull fetches it again, rather than going on with what is wrong."""
    bad = b"no tar at all" * 100
    registry.add([bad], "2", pack=lambda layer: layer)
    with pytest.raises(BadRequestError):
        pull(store, f"{registry.address}/team/app:2")
    assert [path.name for path in store.layout.ingest.iterdir() if path.suffix == ".part"] == []
    _nothing_stays(store)


@pytest.mark.extended
def test_docker_manifests_may_name_themselves(store: ImageStore, registry: TestRegistry) -> None:
    """With parameters behind the type, as some registries send it."""
    content, _ = registry.manifests["1"]
    renamed = content.replace(OCI_MANIFEST.encode(), DOCKER_MANIFEST.encode())
    registry.put(renamed, f"{DOCKER_MANIFEST}; charset=utf-8", "1")
    assert pull(store, _name(registry))


def test_a_certificate_that_is_not_trusted_is_no_reason_to_ask_again() -> None:
    """It will not be trusted a moment later."""
    fetched: list[object] = []

    def fetch(server: object) -> None:
        fetched.append(server)
        error = ssl.SSLCertVerificationError(1, "self-signed")
        error.verify_message = "self-signed certificate"
        raise error

    waiting = SimpleNamespace(_waiting=RetryPolicy(attempts=3, sleep=lambda _seconds: None))
    server = SimpleNamespace(endpoint=SimpleNamespace(address=address_of("https://127.0.0.1:1")))
    with pytest.raises(ImageWorkError, match="not trusted"):
        Repository._tried(cast("Repository", waiting), cast("Any", server), 3, fetch, lambda: 0)
    assert len(fetched) == 1


@pytest.mark.parametrize(("piece", "made"), [(MIB // 8, 3), (MIB, 12)])
def test_a_download_that_breaks_off_has_new_attempts_for_each_mebibyte(piece: int, made: int) -> None:
    """A registry that sends a little each time does not keep a pull going without end."""
    fetched: list[object] = []

    def fetch(server: object) -> None:
        fetched.append(server)
        if len(fetched) < 12:
            raise ConnectionResetError(104, "reset")

    waiting = SimpleNamespace(_waiting=RetryPolicy(attempts=3, sleep=lambda _seconds: None))
    server = SimpleNamespace(endpoint=SimpleNamespace(address=address_of("http://127.0.0.1:1")))
    with suppress(ImageWorkError):
        Repository._tried(cast("Repository", waiting), cast("Any", server), 3, fetch, lambda: len(fetched) * piece)
    assert len(fetched) == made


def test_a_name_leads_to_no_address_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is looked up before the connection: an error would tell whether something listens. A proxy looks names up."""
    looked_up: list[str] = []

    def addresses(host: str, *_: object, **__: object) -> list[tuple[object, ...]]:
        looked_up.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 443))]

    monkeypatch.setattr(socket, "getaddrinfo", addresses)
    registry, other = (ServerAddress("https", f"{name}.example", 443) for name in ("registry", "other"))
    exchange = HttpExchange(RegistryHost(registry, "/v2", is_registry=True), 60.0)
    assert exchange._connect(other, HttpProxy("proxy.example", 3128)).host == "proxy.example"
    assert not looked_up
    with pytest.raises(ImageWorkError, match=r"leads to other\.example, an address of this machine"):
        exchange._connect(other, None)
    assert looked_up == ["other.example"]
