"""Pulls from a registry that serves well."""

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from beehive.clock import RealClock
from modules.runtimes.oci.images import ImageStore, LayerProgress
from modules.runtimes.oci.images.errors import (
    BadRequestError,
    DeadlinePassedError,
    NoSuchObjectError,
    PermissionDeniedError,
)
from protos.cri.v1 import api_pb2 as cri
from tests.modules.runtimes.oci.images.registry import (
    OCI_CONFIG,
    OCI_MANIFEST,
    PASSWORD,
    TOKEN,
    USER,
    TestRegistry,
    basic,
    certificates,
    stall,
    status,
)
from tests.modules.runtimes.oci.images.tars import config_of, described, encoded, file, sha256, tar

LAYERS = [tar(file(f"file-{number}", bytes([number]) * 5000)) for number in range(4)]
GUESSED = "not-it"
RIGHT = cri.AuthConfig(username=USER, password=PASSWORD)


@pytest.fixture
def registry() -> Iterator[TestRegistry]:
    """A registry over plain HTTP, without credentials."""
    with TestRegistry() as started:
        yield started


def pull(store: ImageStore, name: str, auth: cri.AuthConfig | None = None, **options: object) -> str:
    """Pull an image; return its id."""
    request = cri.PullImageRequest(image=cri.ImageSpec(image=name), auth=auth)
    return store.pull(request, **options).image_ref  # type: ignore[arg-type]


@pytest.mark.parametrize("docker", [False, True])
@pytest.mark.parametrize("pack", [None, lambda layer: layer], ids=["gzip", "plain"])
def test_an_image_is_pulled(
    store: ImageStore, registry: TestRegistry, docker: bool, pack: Callable[[bytes], bytes] | None
) -> None:
    """Of Docker's and of OCI's media types, packed or not; its names are the tag and the manifest's digest."""
    digest = registry.add(LAYERS, docker=docker, pack=pack, Cmd=["run"])
    name = f"{registry.address}/team/app"
    image = store.find(pull(store, f"{name}:1"))
    assert image is not None
    assert (image.repo_tags, image.repo_digests) == ((f"{name}:1",), (f"{name}@{digest}",))
    assert image.id == sha256(config_of(LAYERS, Cmd=["run"]))
    assert image.config.command == ("run",)
    assert (store.layout.tree(image.chain[3]) / "file-3").read_bytes() == bytes([3]) * 5000
    assert [path for path in store.layout.ingest.iterdir() if path.suffix != ".lock"] == []


def test_present_layers_are_not_fetched_again(store: ImageStore, registry: TestRegistry) -> None:
    """Neither layers of another image, whatever its repository; a second pull asks only what the tag is now."""
    registry.add(LAYERS[:2], "base")
    registry.add(LAYERS[:3], "app")
    pull(store, f"{registry.address}/team/base:base")
    registry.seen.clear()
    pull(store, f"{registry.address}/other/app:app")
    assert len(registry.paths("/blobs/")) == 2
    registry.seen.clear()
    pull(store, f"{registry.address}/other/app:app")
    assert [(each.method, each.path) for each in registry.seen] == [("HEAD", "/v2/other/app/manifests/app")]


def test_a_tag_that_was_moved_is_pulled_again(store: ImageStore, registry: TestRegistry) -> None:
    """The image that had it stays without a name; a registry that does not know HEAD is asked in full."""
    name = f"{registry.address}/team/app:1"
    registry.add(LAYERS[:1])
    old = pull(store, name)
    registry.add(LAYERS[:2])
    new = pull(store, name)
    assert new != old
    registry.fail("/manifests/1", status(405))
    assert pull(store, name) == new
    assert [each.method for each in registry.seen if "/manifests/" in each.path] == [
        "GET",
        "HEAD",
        "GET",
        "HEAD",
        "GET",
    ]


def test_a_pull_by_digest_gives_no_tag(store: ImageStore, registry: TestRegistry) -> None:
    """A tag beside the digest neither: the digest decides."""
    digest = registry.add(LAYERS)
    name = f"{registry.address}/team/app"
    image = store.find(pull(store, f"{name}:other@{digest}"))
    assert image is not None
    assert (image.repo_tags, image.repo_digests) == ((), (f"{name}@{digest}",))


@pytest.mark.parametrize("docker", [False, True])
def test_the_entry_of_an_index_for_this_machine_is_taken(
    store: ImageStore, registry: TestRegistry, docker: bool
) -> None:
    """Through a nested index, past other platforms, attestations and unknown types; the index' digest is the name."""
    right, wrong = registry.add(LAYERS, "right"), registry.add(LAYERS[:1], "wrong")
    inner = registry.add_index([registry.entry(wrong, "s390x"), registry.entry(right)], "inner", docker=docker)
    attestation = registry.entry(wrong, "unknown", os="unknown")
    strange = {**registry.entry(wrong), "mediaType": "application/x-strange"}
    entries = [attestation, strange, registry.entry(wrong, os="windows"), registry.entry(inner)]
    outer = registry.add_index(entries, "1", docker=docker)
    image = store.find(pull(store, f"{registry.address}/team/app:1"))
    assert image is not None
    assert len(image.chain) == 4
    assert image.repo_digests == (f"{registry.address}/team/app@{outer}",)
    assert set(image.documents) == {outer, inner, right, image.id}


def test_an_entry_without_a_platform_is_judged_by_its_config(store: ImageStore, registry: TestRegistry) -> None:
    """The second one fits."""
    foreign = encoded({"os": "linux", "architecture": "s390x", "rootfs": {"diff_ids": []}})
    registry.blobs[sha256(foreign)] = foreign
    wrong = registry.put(
        encoded({"schemaVersion": 2, "config": described(foreign, OCI_CONFIG), "layers": []}), OCI_MANIFEST, "wrong"
    )
    right = registry.add(LAYERS, "right")
    entries = [described(registry.manifests[each][0], OCI_MANIFEST) for each in (wrong, right)]
    registry.add_index(entries, "1")
    assert pull(store, f"{registry.address}/team/app:1") == sha256(config_of(LAYERS))


def test_an_image_for_another_machine_is_refused(store: ImageStore, registry: TestRegistry) -> None:
    """With the platform that was looked for."""
    wrong = registry.add(LAYERS, "wrong")
    registry.add_index([registry.entry(wrong, "s390x")], "1")
    with pytest.raises(BadRequestError, match="no image for linux/"):
        pull(store, f"{registry.address}/team/app:1")


def test_an_image_that_is_not_there_is_not_found(store: ImageStore, registry: TestRegistry) -> None:
    """With what the registry says; one request is enough to know."""
    with pytest.raises(NoSuchObjectError, match="MANIFEST_UNKNOWN: manifest unknown"):
        pull(store, f"{registry.address}/team/app:1")
    assert len(registry.seen) == 1


@pytest.mark.parametrize(
    "auth",
    [
        RIGHT,
        cri.AuthConfig(auth=basic(USER, PASSWORD).partition(" ")[2]),
        cri.AuthConfig(auth=basic(USER, PASSWORD).partition(" ")[2].rstrip("=")),
    ],
)
@pytest.mark.parametrize("wants", ["basic", "bearer"])
def test_credentials_of_each_form_are_used(store: ImageStore, wants: str, auth: cri.AuthConfig) -> None:
    """Directly, or at the token server."""
    with TestRegistry(wants=wants) as registry:
        registry.add(LAYERS)
        assert pull(store, f"{registry.address}/team/app:1", auth)


def test_identity_and_registry_tokens_are_used(store: ImageStore) -> None:
    """The first is posted to the token server, the second sent as it is."""
    with TestRegistry(wants="bearer") as registry:
        registry.add(LAYERS)
        assert pull(store, f"{registry.address}/team/app:1", cri.AuthConfig(identity_token=TOKEN))
        assert "POST" in {each.method for each in registry.seen}
        registry.seen.clear()
        assert pull(store, f"{registry.address}/team/app:1", cri.AuthConfig(registry_token=TOKEN))
        assert registry.paths("/token") == []


def test_one_token_serves_the_whole_pull(store: ImageStore) -> None:
    """Also one for nobody."""
    with TestRegistry(wants="bearer", anonymous=True) as registry:
        registry.add(LAYERS)
        assert pull(store, f"{registry.address}/team/app:1")
        assert len(registry.paths("/token")) == 1


def test_a_token_may_live_for_any_time(store: ImageStore) -> None:
    """A number of seconds that no float can hold is a long time."""
    with TestRegistry(wants="bearer", anonymous=True) as registry:
        registry.add(LAYERS)
        registry.lifetime = 10**400
        assert pull(store, f"{registry.address}/team/app:1")


@pytest.mark.parametrize("wants", ["basic", "bearer"])
def test_wrong_credentials_are_refused_without_repetition(store: ImageStore, wants: str) -> None:
    """The error has no secret."""
    with TestRegistry(wants=wants) as registry:
        registry.add(LAYERS)
        with pytest.raises(PermissionDeniedError, match="see the pull secret") as refused:
            pull(store, f"{registry.address}/team/app:1", cri.AuthConfig(username=USER, password=GUESSED))
        assert GUESSED not in str(refused.value)
        assert len(registry.seen) <= 3
        with pytest.raises(PermissionDeniedError, match="add a pull secret"):
            pull(store, f"{registry.address}/team/app:1")


def test_credentials_of_another_registry_are_not_sent(store: ImageStore) -> None:
    """`server_address` says whose they are."""
    with TestRegistry(wants="basic") as registry:
        registry.add(LAYERS)
        other = cri.AuthConfig(username=USER, password=PASSWORD, server_address="https://registry.example")
        with pytest.raises(PermissionDeniedError):
            pull(store, f"{registry.address}/team/app:1", other)
        assert {each.authorization for each in registry.seen} == {""}
        own = cri.AuthConfig(username=USER, password=PASSWORD, server_address=f"http://{registry.address}/v2/")
        assert pull(store, f"{registry.address}/team/app:1", own)


def test_progress_ends_with_everything(store: ImageStore, registry: TestRegistry) -> None:
    """Each layer's size is known at the beginning, and its last report says that it is fetched and unpacked."""
    registry.add(LAYERS)
    sizes = {digest: len(registry.blobs[digest]) for digest in registry.layer_digests()}
    told: dict[str, list[LayerProgress]] = {digest: [] for digest in sizes}
    name = f"{registry.address}/team/app:1"

    def note(layer: LayerProgress) -> None:
        told[layer.digest].append(layer)
        assert layer in store.pulls.all()[name]
        assert [layer.digest[7:19], layer.size, layer.fetched, layer.unpacked] in json.loads(store.pulls.described())[
            name
        ]

    pull(store, name, progress=note)
    assert store.pulls.all() == {}
    for digest, size in sizes.items():
        assert told[digest][0] == LayerProgress(digest, size)
        assert told[digest][-1] == LayerProgress(digest, size, size, size)


def test_a_pull_ends_with_its_client(store: ImageStore, registry: TestRegistry) -> None:
    """While the registry keeps it waiting; nothing stays but what a later pull resumes."""
    registry.add(LAYERS)
    asked = threading.Event()

    def waiting(handler: object) -> bool:
        asked.set()
        return stall()(handler)  # type: ignore[arg-type]

    registry.fail("/manifests/1", waiting)

    def on_cancel(cancel: Callable[[], None]) -> None:
        def cancel_later() -> None:
            asked.wait()
            cancel()

        threading.Thread(target=cancel_later).start()

    with pytest.raises(DeadlinePassedError):
        pull(store, f"{registry.address}/team/app:1", on_cancel=on_cancel)
    with pytest.raises(DeadlinePassedError):
        pull(store, f"{registry.address}/team/app:1", on_cancel=lambda _: False)
    assert store.find(f"{registry.address}/team/app:1") is None
    assert pull(store, f"{registry.address}/team/app:1")


def test_two_pulls_at_once_fetch_each_layer_once(store: ImageStore, registry: TestRegistry) -> None:
    """The second waits for the first."""
    registry.add(LAYERS)
    registry.add([*LAYERS, tar(file("more"))], "2")
    names = [f"{registry.address}/team/app:{tag}" for tag in "12"]
    threads = [threading.Thread(target=pull, args=(store, name)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [store.find(name) is not None for name in names] == [True, True]


def test_collection_during_a_pull_takes_nothing_of_it(store: ImageStore, registry: TestRegistry) -> None:
    """Its lower layer is there already, and belongs to no image yet."""
    registry.add(LAYERS)
    told = threading.Event()

    def collect(_: LayerProgress) -> None:
        store.collect()
        told.set()

    assert pull(store, f"{registry.address}/team/app:1", progress=collect)
    assert told.is_set()
    image = store.find(f"{registry.address}/team/app:1")
    assert image is not None
    assert all(store.layout.tree(each).is_dir() for each in image.chain)


def test_what_two_images_share_outlives_the_first_during_a_pull_of_the_second(
    scratch: Path, registry: TestRegistry
) -> None:
    """The unpacked layer, and the layer as it came."""
    store = ImageStore(scratch / "keeping", RealClock(), scratch / "certs.d", keep_blobs=True)
    registry.add(LAYERS[:1])
    registry.add(LAYERS[:2], "2")
    first, second = (f"{registry.address}/team/app:{tag}" for tag in "12")
    pull(store, first)

    def remove(_: LayerProgress) -> None:
        store.remove(cri.RemoveImageRequest(image=cri.ImageSpec(image=first)))

    image = store.get(pull(store, second, progress=remove))
    assert store.find(first) is None
    assert image.layer_blobs.keys() == set(registry.layer_digests("2"))
    assert all(store.layout.blob(digest).exists() for digest in image.blobs)
    assert all(store.layout.tree(each).is_dir() for each in image.chain)


def test_an_image_that_is_removed_while_it_is_looked_for_is_pulled(store: ImageStore, registry: TestRegistry) -> None:
    """The registry has it unchanged, and the store no more."""
    registry.add(LAYERS)
    name = f"{registry.address}/team/app:1"
    pull(store, name)

    def removing(_: object) -> bool:
        store.remove(cri.RemoveImageRequest(image=cri.ImageSpec(image=name)))
        return False

    registry.fail("/manifests/1", removing)
    image = store.get(pull(store, name))
    assert all(store.layout.tree(each).is_dir() for each in image.chain)


def test_nothing_is_left_of_the_layers_as_they_came(store: ImageStore, registry: TestRegistry) -> None:
    """Once they are unpacked; they would take half as much space again."""
    registry.add(LAYERS)
    pull(store, f"{registry.address}/team/app:1")
    assert [path.name for path in store.layout.ingest.iterdir() if path.suffix != ".lock"] == []


def _trust(directory: Path, registry: TestRegistry, text: str) -> None:
    """Write a hosts.toml for a registry."""
    path = directory / registry.address
    path.mkdir(parents=True)
    (path / "hosts.toml").write_text(text)


def test_tls_with_an_authority_of_ones_own(store: ImageStore, scratch: Path) -> None:
    """Named in the hosts.toml; without it, the certificate is not trusted and the error says where to name it."""
    ca, server = certificates(scratch)
    with TestRegistry(server, "bearer", anonymous=True) as registry:
        registry.add(LAYERS)
        name = f"{registry.address}/team/app:1"
        _trust(scratch / "certs.d", registry, f'server = "https://{registry.address}"\n')
        with pytest.raises(Exception, match=r"not trusted.*hosts\.toml"):
            pull(store, name)
        hosts = scratch / "certs.d" / registry.address / "hosts.toml"
        hosts.write_text(f'server = "https://{registry.address}"\nca = "{ca}"\n')
        assert pull(store, name)
        hosts.write_text(f'server = "https://{registry.address}"\nskip_verify = true\n')
        with pytest.raises(Exception, match=r"token server|not trusted"):
            registry.realm = f"https://localhost:{registry.address.partition(':')[2]}/token"
            pull(store, name)


def test_mirrors_are_asked_first(store: ImageStore, scratch: Path) -> None:
    """In their order, with the registry's name and without its credentials; then the registry itself."""
    with TestRegistry() as empty, TestRegistry() as mirror, TestRegistry(wants="basic") as registry:
        registry.add(LAYERS)
        mirror.add(LAYERS)
        text = (
            f'server = "http://{registry.address}"\n'
            f'[host."http://{empty.address}"]\n'
            f'[host."http://{mirror.address}"]\ncapabilities = ["pull", "resolve"]\nheader = {{X-Own = "yes"}}\n'
        )
        _trust(scratch / "certs.d", registry, text)
        assert pull(store, f"{registry.address}/team/app:1", RIGHT)
        assert registry.seen == []
        assert all(path.endswith(f"?ns={registry.address}") for path in (*mirror.paths(), *empty.paths()))
        mirror.manifests.clear()
        registry.add(LAYERS[:1], "2")
        assert pull(store, f"{registry.address}/team/app:2", RIGHT)
        assert registry.seen[-1].authorization == basic(USER, PASSWORD)
        mirror.wants = "basic"
        mirror.add(LAYERS[1:2], "3")
        empty.fail("/manifests/3", status(503), status(503))
        registry.add(LAYERS[1:2], "3")
        assert pull(store, f"{registry.address}/team/app:3", RIGHT)
        assert {each.authorization for each in (*mirror.seen, *empty.seen)} == {""}
        assert len(empty.paths("/manifests/3")) == 1


def test_a_mirror_without_resolve_is_asked_for_content_only(store: ImageStore, scratch: Path) -> None:
    """What a tag means, only the registry says."""
    with TestRegistry() as mirror, TestRegistry() as registry:
        registry.add(LAYERS)
        mirror.add(LAYERS)
        text = (
            f'server = "http://{registry.address}"\n[host."http://{mirror.address}/own"]\n'
            'capabilities = ["pull"]\noverride_path = true\n'
        )
        _trust(scratch / "certs.d", registry, text)
        assert pull(store, f"{registry.address}/team/app:1")
        assert [path.rpartition("/")[0] for path in registry.paths()] == ["/v2/team/app/manifests"]
        assert all(path.startswith("/own/team/app/blobs/") for path in mirror.paths())


def test_the_default_hosts_file_is_for_every_registry(store: ImageStore, scratch: Path) -> None:
    """Also for Docker Hub, which is not asked."""
    with TestRegistry() as mirror:
        mirror.add(LAYERS, "latest")
        path = scratch / "certs.d" / "_default"
        path.mkdir(parents=True)
        (path / "hosts.toml").write_text(f'[host."http://{mirror.address}"]\n')
        assert pull(store, "busybox")
        assert mirror.paths("/v2/library/busybox/manifests/latest?ns=docker.io") != []
        assert store.find("docker.io/library/busybox:latest") is not None
