"""What a collection leaves of the layers and blobs of workers: others remove images while a worker adds one."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from beehive.simulation import Simulation
from modules.runtimes.oci.images import ImageConfig, ImageStore, StorageUsage, StoredImage
from modules.runtimes.oci.images.errors import RequestRefusedError, RunFailedError
from modules.runtimes.oci.images.worker_process import Needs
from protos.cri.v1 import api_pb2 as cri

CHAIN, BLOB, ID = ("sha256:" + digit * 64 for digit in "123")
IMAGE = StoredImage(ID, ("docker.io/library/app:1",), (), ImageConfig(), (CHAIN,), {BLOB: 4})
NAME = "docker.io/library/app:1"


class Workers:
    """Workers of a store, each of which does what comes next. A sweep does nothing."""

    def __init__(self, *steps: Callable[[], tuple[StoredImage, ...]]) -> None:
        self.steps = list(steps)
        self.requests: list[Mapping[str, Any]] = []
        self.protect: Callable[[Needs], None] = lambda _: None

    def __call__(self, _attempt: str, protect: Callable[[Needs], None], *_: object) -> Workers:
        self.protect = protect
        return self

    def cancel(self) -> None:
        """End a worker."""

    def run(self, request: Mapping[str, Any]) -> tuple[StoredImage, ...]:
        if request["operation"] == "sweep":
            return ()
        self.requests.append(request)
        return self.steps.pop(0)()


@pytest.fixture
def store(tmp_path: Path) -> ImageStore:
    return ImageStore(tmp_path / "store", Simulation(1).clock, tmp_path)


def _pull(store: ImageStore, workers: Workers) -> str:
    with patch("modules.runtimes.oci.images.store.WorkerProcess", workers):
        return store.pull(cri.PullImageRequest(image=cri.ImageSpec(image=NAME))).image_ref


def _unpack(store: ImageStore) -> None:
    store.layout.layer(CHAIN).mkdir()
    store.layout.blob(BLOB).write_bytes(b"blob")


def _is_there(store: ImageStore) -> tuple[bool, bool]:
    return store.layout.layer(CHAIN).is_dir(), store.layout.blob(BLOB).exists()


def test_layers_and_blobs_of_an_image_that_is_being_pulled_stay(store: ImageStore) -> None:
    """Another image is removed before this one is in the index."""

    def work() -> tuple[StoredImage, ...]:
        workers.protect(Needs((CHAIN,), (BLOB,)))
        _unpack(store)
        store.collect()
        assert _is_there(store) == (True, True)
        return (IMAGE,)

    workers = Workers(work)
    assert _pull(store, workers) == ID
    store.collect()
    assert _is_there(store) == (True, True)


def test_what_a_pull_has_unpacked_in_vain_goes_at_once(store: ImageStore) -> None:
    """A disk that is full of it would let no other attempt succeed."""

    def work() -> tuple[StoredImage, ...]:
        workers.protect(Needs((CHAIN,), (BLOB,)))
        _unpack(store)
        raise RunFailedError("pull", "no space")

    workers = Workers(work)
    with pytest.raises(RequestRefusedError):
        _pull(store, workers)
    assert _is_there(store) == (False, False)


def test_an_image_that_is_removed_while_the_registry_finds_it_unchanged_is_pulled_whole(store: ImageStore) -> None:
    """The answer would name an image that is not there."""

    def unchanged() -> tuple[StoredImage, ...]:
        store.remove(cri.RemoveImageRequest(image=cri.ImageSpec(image=ID)))
        return ()

    digest = "sha256:" + "4" * 64
    store._added([StoredImage(ID, (NAME,), (f"docker.io/library/app@{digest}",), ImageConfig(), (), {})])
    workers = Workers(unchanged, lambda: (IMAGE,))
    assert _pull(store, workers) == ID
    assert [request["known"] for request in workers.requests] == [[digest], []]
    assert store.find(NAME) is not None


def test_an_image_that_is_pulled_by_another_digest_keeps_the_documents_and_blobs_of_the_first(
    store: ImageStore,
) -> None:
    """They belong to a name that it still has."""
    digests = ["sha256:" + digit * 64 for digit in "4567"]
    for document, layer in (digests[:2], digests[2:]):
        names = (f"docker.io/library/app@{document}",)
        store._added([StoredImage(ID, (), names, ImageConfig(), (), {document: 4}, layer_blobs={layer: 4})])
    for digest in digests:
        store.layout.blob(digest).write_bytes(b"blob")
    store.collect()
    assert [store.layout.blob(digest).exists() for digest in digests] == [True] * 4
    image = store.find(f"docker.io/library/app@{digests[0]}")
    assert image is not None and sorted(image.blobs) == digests


def test_a_layer_whose_record_cannot_be_read_for_a_moment_counts_again_after_it(store: ImageStore) -> None:
    """Without a free descriptor all layers seemed to take no room, until edgecore's end."""
    _unpack(store)
    store.layout.record(CHAIN).write_text('{"bytes":4096,"inodes":2}')

    def used() -> int:
        [usage] = store.file_system(StorageUsage()).image_filesystems
        return usage.used_bytes.value

    failure = OSError(errno.EMFILE, os.strerror(errno.EMFILE))
    with patch("modules.runtimes.oci.images.store.read_file", side_effect=failure):
        assert used() == 0
    assert used() == 4096
