"""The store: names, archives, holds, collection, restarts."""

import errno
import os
import shutil
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from beehive.clock import RealClock
from modules.runtimes.oci.images import ImageConfig, ImageStore, StorageUsage, StoredImage, index
from modules.runtimes.oci.images.errors import (
    BadRequestError,
    DeadlinePassedError,
    NoSuchObjectError,
    RequestRefusedError,
    RunFailedError,
)
from modules.runtimes.oci.images.index import ImageIndex
from modules.runtimes.oci.images.names import ONE_NAME
from modules.runtimes.oci.images.store import Holds
from protos.cri.v1 import api_pb2 as cri
from tests.modules.runtimes.oci.images.tars import (
    config_of,
    docker_archive,
    encoded,
    file,
    oci_layout,
    sha256,
    tar,
    write_archive,
)
from tests.modules.runtimes.oci.images.unpacked import imported
from tests.support.shortages import lack

_ONE, _TWO, _THREE = (tar(file(name, name.encode() * 5000)) for name in ("one", "two", "three"))


def _again(store: ImageStore) -> ImageStore:
    """The store after a restart of edgecore."""
    return ImageStore(store.layout.root, RealClock(), store.layout.root / "certs.d")


def _remove(store: ImageStore, name: str, **annotations: str) -> None:
    store.remove(cri.RemoveImageRequest(image=cri.ImageSpec(image=name, annotations=annotations)))


def _status(store: ImageStore, name: str) -> cri.Image:
    return store.status(cri.ImageStatusRequest(image=cri.ImageSpec(image=name))).image


def _layers(store: ImageStore) -> set[str]:
    return {f"sha256:{path.name}" for path in store.layout.layers.iterdir()}


@pytest.mark.extended
def test_an_archive_of_docker_save_is_imported(store: ImageStore) -> None:
    """Its id is the digest of its config; it has names, no digests, and is there after a restart."""
    image = imported(store, _ONE, _TWO, name="app:1")
    assert image.id == sha256(config_of([_ONE, _TWO]))
    assert (image.repo_tags, image.repo_digests) == (("docker.io/library/app:1",), ())
    assert _again(store).find("app:1") == image
    assert (store.layout.tree(image.chain[1]) / "two").read_bytes() == b"two" * 5000


@pytest.mark.extended
def test_an_oci_layout_is_imported(store: ImageStore, scratch: Path) -> None:
    """The manifest for this machine out of an index in an index; the outer one's digest is its name."""
    archive = oci_layout(scratch / "layout.tar", [_ONE, _TWO], {"io.containerd.image.name": "example.org/app:2"})
    (image,) = store.import_archive(archive)
    assert image.repo_tags == ("example.org/app:2",)
    assert store.find(image.repo_digests[0]) == image
    assert len(image.documents) == 3
    assert all(store.layout.blob(digest).stat().st_size == size for digest, size in image.documents.items())


@pytest.mark.extended
def test_a_layout_with_a_tag_for_a_name_has_no_name(store: ImageStore, scratch: Path) -> None:
    """skopeo writes `org.opencontainers.image.ref.name: latest`, which names no repository."""
    archive = oci_layout(scratch / "layout.tar", [_ONE], {"org.opencontainers.image.ref.name": "latest"})
    (image,) = store.import_archive(archive)
    assert (image.repo_tags, image.repo_digests) == ((), ())
    assert store.find(image.id) == image


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ({"readme": b"hi"}, "no archive of images"),
        ({"manifest.json": b"[{}]"}, "no text"),
        ({"manifest.json": b"{}"}, "no list"),
        ({"manifest.json": b"[" * 100_000}, "no JSON"),
        ({"manifest.json": b'[{"Config": "c", "Layers": []}]'}, "has no 'c'"),
        ({"manifest.json": b'[{"Config": "c", "Layers": ["l"]}]', "c": config_of([])}, "has no 'l'"),
        ({"manifest.json": b'[{"Config": "c", "Layers": []}]', "c": config_of([_ONE])}, "not as many layers"),
        ({"manifest.json": b'[{"Config": "c", "RepoTags": ["A:B:C"]}]', "c": config_of([])}, "no image name"),
        ({"manifest.json": b'[{"Config": "c"}]', "c": encoded({"config": {"Env": "x"}})}, "no list"),
        ({"manifest.json": b'[{"Config": "c"}]', "c": encoded({"config": {"Cmd": ["a\0"]}})}, "list of texts"),
        ({"manifest.json": b'[{"Config": "c"}]', "c": encoded({"rootfs": {"diff_ids": ["sha256:x"]}})}, "no digest"),
        ({"oci-layout": b"{}", "index.json": b'{"manifests": []}'}, "no image for linux"),
        ({"oci-layout": b"{}", "index.json": b'{"manifests": [{"size": -1}]}'}, "usable size"),
    ],
)
@pytest.mark.extended
def test_files_that_are_no_archives_are_refused(
    store: ImageStore, scratch: Path, members: dict[str, bytes], reason: str
) -> None:
    """With the reason."""
    with pytest.raises(BadRequestError, match=reason):
        store.import_archive(write_archive(scratch / "a.tar", members))


@pytest.mark.extended
def test_a_fifo_is_no_archive(store: ImageStore, scratch: Path) -> None:
    """Nobody writes into it, and nothing waits for that."""
    os.mkfifo(scratch / "a.tar")
    with pytest.raises(RunFailedError, match="Illegal seek"):
        store.import_archive(scratch / "a.tar")


@pytest.mark.extended
def test_an_archive_that_is_not_there_is_named(store: ImageStore) -> None:
    """The machine's own word for it."""
    with pytest.raises(RunFailedError, match=r'No such file or directory "/nowhere/a\.tar"'):
        store.import_archive(Path("/nowhere/a.tar"))


@pytest.mark.extended
def test_an_image_is_found_by_every_name_of_it(store: ImageStore, scratch: Path) -> None:
    """Short and full tag, digest, id with and without algorithm, and the unique beginning of an id."""
    archive = oci_layout(scratch / "layout.tar", [_ONE], {"io.containerd.image.name": "docker.io/library/app:latest"})
    (image,) = store.import_archive(archive)
    digest = image.repo_digests[0].partition("@")[2]
    names = (
        "app",
        "app:latest",
        "docker.io/app",
        *image.names,
        f"app:1@{digest}",
        image.id,
        image.id[7:],
        image.id[7:15],
    )
    assert [store.find(name) for name in names] == [image] * len(names)
    assert len({_status(store, name).SerializeToString() for name in names}) == 1
    wrong = ("app:2", "other", image.id[7:9], "sha256:" + "0" * 64, "", "A b", f"other@{digest}")
    assert [store.find(name) for name in wrong] == [None] * len(wrong)


def test_the_beginning_of_two_ids_names_neither(tmp_path: Path) -> None:
    """Which of both would be removed?"""
    images = ImageIndex(tmp_path / "index.json")
    ids = [f"sha256:{'a' * 63}{letter}" for letter in "bc"]
    images.add(StoredImage(each, (), (), ImageConfig(), (), {}) for each in ids)
    assert [images.find(text) for text in ("aaa", "a" * 63, f"sha256:{'a' * 12}")] == [None] * 3
    assert [found.id for each in ids if (found := images.find(each[7:]))] == ids


def test_an_index_that_cannot_be_read_for_want_of_descriptors_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The images would have to be pulled again, by a node that may be away from its registry."""
    path, image = tmp_path / "index.json", f"sha256:{'a' * 64}"
    ImageIndex(path).add([StoredImage(image, (), (), ImageConfig(), (), {})])
    with monkeypatch.context() as patch, pytest.raises(OSError, match="Too many open files"):
        lack(patch, index)
        ImageIndex(path)
    assert ImageIndex(path).by_id(image) is not None


@pytest.mark.extended
def test_a_tag_moves_to_the_newest_image(store: ImageStore) -> None:
    """The image that had it stays, without the name; further tags of one image come together."""
    old = imported(store, _ONE)
    new = imported(store, _TWO)
    assert store.find("example.org/app:1") == new
    found = store.find(old.id)
    assert found is not None
    assert found.repo_tags == ()
    imported(store, _TWO, name="example.org/other:1")
    assert list(_status(store, new.id).repo_tags) == ["example.org/app:1", "example.org/other:1"]
    assert len(store.listing(cri.ListImagesRequest()).images) == 2


@pytest.mark.extended
def test_an_index_that_cannot_be_written_changes_nothing(store: ImageStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """What requests find is what is there after a restart."""
    image = imported(store, _ONE)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(index, "replace_file", full)
    with pytest.raises(OSError, match="No space left"):
        _remove(store, image.id)
    with pytest.raises(OSError, match="No space left"):
        imported(store, _TWO)
    assert store.find("example.org/app:1") == image == _again(store).find("example.org/app:1")
    assert _layers(store) >= set(image.chain)


@pytest.mark.extended
def test_one_workers_end_leaves_what_another_unpacks(store: ImageStore) -> None:
    """Only when none works is a layer that is not whole a leftover."""
    unfinished = store.layout.layers / ".tmp-0.1"
    unfinished.mkdir()
    with store._working_on():
        with store._working_on():
            pass
        store.collect()
        assert unfinished.exists()
    store.collect()
    assert not unfinished.exists()


@pytest.mark.extended
def test_removal_by_id_removes_all_names(store: ImageStore) -> None:
    image = imported(store, _ONE)
    imported(store, _ONE, name="example.org/second:1")
    _remove(store, image.id)
    assert not store.listing(cri.ListImagesRequest()).images


@pytest.mark.extended
def test_removal_by_one_of_several_names_removes_this_name(store: ImageStore) -> None:
    """With the last tag the image goes, with its layers and documents; what another image has too stays. Removing it
    again is no error.
    """
    gone = imported(store, _ONE, _TWO)
    imported(store, _ONE, _TWO, name="docker.io/library/second:1")
    stays = imported(store, _ONE, name="example.org/base:1")
    for name in ("second:1", "docker.io/library/second:1"):
        _remove(store, name, **{ONE_NAME: ""})
    assert _status(store, gone.id).repo_tags == ["example.org/app:1"]
    _remove(store, "example.org/app:1", **{ONE_NAME: ""})
    assert (store.find("example.org/app:1"), store.find(gone.id)) == (None, None)
    _remove(store, gone.id)
    assert _layers(store) == {stays.chain[0]}
    assert [path.name for path in store.layout.blobs.glob("*/*")] == [stays.id[7:]]
    assert list(store.layout.trash.iterdir()) == []
    assert [image.id for image in store.listing(cri.ListImagesRequest()).images] == [stays.id]


@pytest.mark.extended
def test_several_removals_at_once_all_succeed(store: ImageStore) -> None:
    """As critest asks for it."""
    image = imported(store, _ONE)
    failures: list[BaseException] = []

    def remove() -> None:
        try:
            _remove(store, image.id)
        except (RequestRefusedError, OSError) as error:
            failures.append(error)

    threads = [threading.Thread(target=remove) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert _layers(store) == set()


@pytest.mark.extended
def test_layers_stay_while_a_container_holds_the_image(store: ImageStore) -> None:
    """Over a restart, too: the container's record names the image."""
    image = imported(store, _ONE)
    store.hold("container", image.id)
    _remove(store, "example.org/app:1")
    assert store.find(image.id) is None
    assert store.get(image.id).chain == image.chain
    assert _layers(store) == {image.chain[0]}
    later = _again(store)
    later.keep_only({"container": image.id})
    assert _layers(later) == {image.chain[0]}
    later.release("container")
    later.release("container")
    assert _layers(later) == set()
    with pytest.raises(NoSuchObjectError):
        later.hold("other", image.id)


@pytest.mark.extended
def test_an_image_is_not_removed_between_being_found_and_being_held(
    store: ImageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread that removes it, or drops what is not held, comes before or after both."""
    image = imported(store, _ONE)
    add = Holds.add

    def add_late(holds: Holds, holder: str, image_id: str) -> None:
        if store._lock.acquire(blocking=False):
            store._lock.release()
            _remove(store, image.id)
        add(holds, holder, image_id)

    monkeypatch.setattr(Holds, "add", add_late)
    store.hold("container", image.id)
    _remove(store, image.id)
    assert store.get(image.id).chain == image.chain
    assert _layers(store) == {image.chain[0]}


@pytest.mark.extended
def test_holds_of_containers_that_are_gone_are_dropped_at_the_start(store: ImageStore) -> None:
    """`keep_only` names the remaining ones."""
    image = imported(store, _ONE)
    store.hold("container", image.id)
    _remove(store, image.id)
    later = _again(store)
    later.keep_only({})
    assert _layers(later) == set()


@pytest.mark.extended
def test_a_removed_image_that_is_imported_again_is_there(store: ImageStore) -> None:
    """With the names of the new import only."""
    image = imported(store, _ONE)
    store.hold("container", image.id)
    _remove(store, image.id)
    again = imported(store, _ONE, name="example.org/new:1")
    assert again.repo_tags == ("example.org/new:1",)
    store.release("container")
    assert store.find(image.id) is not None


@pytest.mark.extended
def test_usage_counts_layers_and_documents(store: ImageStore) -> None:
    """A layer that two images share counts once."""
    one = imported(store, _ONE)
    two = imported(store, _ONE, _TWO, name="example.org/b:1")
    answer = store.file_system(StorageUsage(4096, 3))
    (images,), (containers,) = answer.image_filesystems, answer.container_filesystems
    assert (containers.used_bytes.value, containers.inodes_used.value) == (4096, 3)
    documents = sum(one.documents.values()) + sum(two.documents.values())
    assert images.used_bytes.value == 2 * 16384 + documents
    assert images.inodes_used.value == 2 + 2 + 2
    assert images.fs_id.mountpoint == str(store.layout.root)
    assert _status(store, one.id).size == one.size > 0


@pytest.mark.extended
def test_a_damaged_index_is_set_aside(store: ImageStore) -> None:
    """Images are absent until they come again, which finds their layers."""
    image = imported(store, _ONE)
    store.layout.index.write_bytes(b"{")
    later = _again(store)
    assert later.find(image.id) is None
    before = store.layout.tree(image.chain[0]).stat().st_ino
    assert imported(later, _ONE).id == image.id
    assert store.layout.tree(image.chain[0]).stat().st_ino == before


@pytest.mark.extended
def test_layers_that_were_being_unpacked_go_at_the_start(store: ImageStore) -> None:
    """An earlier edgecore was killed."""
    half = store.layout.layers / f".tmp-{'0' * 64}"
    (half / "fs").mkdir(parents=True)
    later = _again(store)
    later.keep_only({})
    assert not half.exists()
    assert list(store.layout.trash.iterdir()) == []


def test_an_import_whose_client_gives_up_ends(store: ImageStore, scratch: Path) -> None:
    """Whether it gives up before or after the process started."""
    archive = docker_archive(scratch / "a.tar", [_ONE])
    with pytest.raises(DeadlinePassedError):
        store.import_archive(archive, lambda cancel: cancel())
    assert store.find("example.org/app:1") is None


def test_no_name_is_a_wrong_request(store: ImageStore) -> None:
    """As with other runtimes."""
    for call in (lambda: _status(store, ""), lambda: _remove(store, "")):
        with pytest.raises(BadRequestError):
            call()


@pytest.mark.parametrize(
    ("user", "uid", "name"),
    [
        ("", None, ""),
        ("1002", 1002, ""),
        ("www-data", None, "www-data"),
        ("1003:users", 1003, ""),
        ("a:b", None, "a"),
        ("4294967296", None, "4294967296"),
        ("0" * 20 + "9" * 30, None, "0" * 20 + "9" * 30),
        ("0" * 5000 + "7", 7, ""),
    ],
    ids=range(8),
)
@pytest.mark.extended
def test_status_has_the_user_of_the_image(
    store: ImageStore, scratch: Path, user: str, uid: int | None, name: str
) -> None:
    """A number, or a name; also a name that would spoil the listing of all images."""
    manifest = b"[" + encoded({"Config": "c", "RepoTags": ["example.org/app:1"], "Layers": ["l"]}) + b"]"
    members = {"manifest.json": manifest, "c": config_of([_ONE], User=user), "l": _ONE}
    store.import_archive(write_archive(scratch / "a.tar", members))
    found = _status(store, "example.org/app:1")
    assert (found.uid.value if found.HasField("uid") else None, found.username) == (uid, name)


@pytest.mark.extended
def test_the_config_of_an_image_is_kept(store: ImageStore, scratch: Path) -> None:
    """What containers need of it."""
    settings = {
        "Entrypoint": ["/app"], "Cmd": ["-v"], "Env": ["A=b"], "User": "7:8", "WorkingDir": "/srv",
        "StopSignal": "SIGINT", "Volumes": {"/data": {}}, "Labels": {"a": "b"},
    }  # fmt: skip
    manifest = b"[" + encoded({"Config": "c", "RepoTags": ["example.org/app:1"], "Layers": ["l"]}) + b"]"
    members = {"manifest.json": manifest, "c": config_of([_ONE], **settings), "l": _ONE}
    image: StoredImage
    (image,) = store.import_archive(write_archive(scratch / "a.tar", members))
    config = image.config
    assert (config.entrypoint, config.command, config.environment) == (("/app",), ("-v",), ("A=b",))
    assert (config.user, config.working_directory, config.stop_signal) == ("7:8", "/srv", "SIGINT")
    assert (config.volumes, config.labels) == (("/data",), {"a": "b"})


@pytest.mark.extended
def test_given_up_downloads_go_when_the_disk_gets_full(store: ImageStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else they stay for a day: registries that break off would fill the disk. The next attempt still finds them."""
    part = store.layout.part("sha256:" + "0" * 64, 9, "registry.example")
    part.write_bytes(b"begun")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(total=1000, free=200))
    store.collect()
    assert part.exists()
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(total=1000, free=199))
    store.collect()
    assert part.exists()
    before = time.time() - 901
    os.utime(part, (before, before))
    store.collect()
    assert not part.exists()


@pytest.mark.extended
def test_an_image_that_the_index_cannot_take_leaves_no_layers(
    store: ImageStore, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is full: what the worker has unpacked is not needed, and would stay until the next collection."""
    with monkeypatch.context() as failing:
        failing.setattr(index, "replace_file", Mock(side_effect=OSError(errno.ENOSPC, "no space")))
        with pytest.raises(OSError, match="no space"):
            imported(store, _ONE, _TWO)
    assert (_layers(store), store._working, store._needs) == (set(), 0, {})
    image = imported(store, _ONE, _TWO)
    assert _layers(store) == set(image.chain)


@pytest.mark.extended
def test_layers_are_protected_until_the_index_has_their_image(
    store: ImageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another call may collect at any moment; here when the worker has ended, and before the index is written."""
    add = store._index.add

    def collect_first(images: Iterable[StoredImage]) -> None:
        store.collect()
        add(images)

    monkeypatch.setattr(store, "_lock", threading.RLock())
    monkeypatch.setattr(store._index, "add", collect_first)
    image = imported(store, _ONE, _TWO)
    assert _layers(store) == set(image.chain)
