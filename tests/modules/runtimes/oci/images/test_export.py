"""Images that leave the store as archives, and come back the same."""

import gzip
from pathlib import Path

import pytest

from beehive.clock import RealClock
from modules.runtimes.oci.images import ImageStore, StoredImage, export_image
from modules.runtimes.oci.images.errors import BadRequestError, NoSuchObjectError, RunFailedError
from protos.cri.v1 import api_pb2 as cri
from tests.modules.runtimes.oci.images.registry import TestRegistry
from tests.modules.runtimes.oci.images.tars import docker_archive, oci_layout
from tests.modules.runtimes.oci.images.test_pulls import LAYERS, pull
from tests.support.containerd import PrivateContainerd, reason_missing


@pytest.fixture
def keeping(scratch: Path) -> ImageStore:
    """A store that keeps layers as they came."""
    return ImageStore(scratch / "keeping", RealClock(), scratch / "certs.d", keep_blobs=True)


def _there_and_back(keeping: ImageStore, store: ImageStore, name: str, scratch: Path) -> StoredImage:
    export_image(keeping.layout.root, name, scratch / "out.tar")
    (found,) = store.import_archive(scratch / "out.tar")
    assert sorted(path.name for path in scratch.iterdir() if path.name.startswith(".")) == []
    return found


def test_a_pulled_image_comes_back_with_its_names(keeping: ImageStore, store: ImageStore, scratch: Path) -> None:
    """The same id and layers; the digest is the manifest's for this machine."""
    with TestRegistry() as registry:
        manifest = registry.add(LAYERS, "one")
        registry.add_index([registry.entry(manifest)], "1")
        name = f"{registry.address}/team/app:1"
        pull(keeping, name)
        assert [path.name for path in keeping.layout.ingest.iterdir() if path.suffix != ".lock"] == []
    image, found = keeping.find(name), _there_and_back(keeping, store, name, scratch)
    assert image is not None
    assert (found.id, found.repo_tags, found.chain, found.config) == (image.id, (name,), image.chain, image.config)
    assert found.repo_digests == (f"{name.rpartition(':')[0]}@{manifest}",)


def test_an_imported_image_comes_back(keeping: ImageStore, store: ImageStore, scratch: Path) -> None:
    """From `docker save`, with a manifest made for it, and from an OCI layout."""
    (saved,) = keeping.import_archive(docker_archive(scratch / "a.tar", LAYERS[:2], ["example.org/saved:1"]))
    assert _there_and_back(keeping, store, "example.org/saved:1", scratch).chain == saved.chain
    annotations = {"io.containerd.image.name": "example.org/laid:1"}
    (laid,) = keeping.import_archive(oci_layout(scratch / "b.tar", LAYERS, annotations))
    assert _there_and_back(keeping, store, laid.id, scratch).repo_tags == ("example.org/laid:1",)


def test_compressed_layers_of_a_saved_image_are_imported(keeping: ImageStore, scratch: Path) -> None:
    """Some builders write them so. Nothing in the archive names their digests, so they are not kept as they came."""
    (image,) = keeping.import_archive(docker_archive(scratch / "a.tar", LAYERS[:2], pack=gzip.compress))
    assert (len(image.chain), image.layer_blobs) == (2, {})


def test_kept_layers_go_with_their_image(keeping: ImageStore, scratch: Path) -> None:
    """They count as its size while it is there."""
    (image,) = keeping.import_archive(docker_archive(scratch / "a.tar", LAYERS[:2]))
    assert sum(image.layer_blobs.values()) == sum(len(layer) for layer in LAYERS[:2])
    assert image.size > sum(image.layer_blobs.values())
    keeping.remove(cri.RemoveImageRequest(image=cri.ImageSpec(image=image.id)))
    assert list(keeping.layout.blobs.glob("*/*")) == []


def test_without_kept_layers_nothing_is_exported(store: ImageStore, scratch: Path) -> None:
    """The error says what to do; no file appears."""
    store.import_archive(docker_archive(scratch / "a.tar", LAYERS[:1]))
    with pytest.raises(RunFailedError, match="discardUnpackedLayers"):
        export_image(store.layout.root, "example.org/app:1", scratch / "out.tar")
    with pytest.raises(NoSuchObjectError):
        export_image(store.layout.root, "example.org/other:1", scratch / "out.tar")
    assert not (scratch / "out.tar").exists()


def test_a_damaged_index_stays_for_the_runtime_that_has_it(store: ImageStore, scratch: Path) -> None:
    store.layout.index.write_bytes(b"{")
    with pytest.raises(RunFailedError, match=r"index\.json"):
        export_image(store.layout.root, "example.org/app:1", scratch / "out.tar")
    assert store.layout.index.read_bytes() == b"{"
    assert not (scratch / "out.tar").exists()


def test_a_layer_of_a_layout_with_another_digest_is_refused(keeping: ImageStore, scratch: Path) -> None:
    """Its plain content may be right all the same."""
    archive = oci_layout(scratch / "a.tar", LAYERS[:1], {})
    content = archive.read_bytes()
    at = content.index(b"\x1f\x8b\x08")
    archive.write_bytes(content[: at + 9] + bytes([content[at + 9] ^ 1]) + content[at + 10 :])  # the packer's system
    with pytest.raises(BadRequestError, match="has another content"):
        keeping.import_archive(archive)


@pytest.mark.containerd
def test_containerd_reads_exported_images(keeping: ImageStore, scratch: Path) -> None:
    """Under its name, with its id."""
    reason = reason_missing()
    if reason is not None:
        pytest.skip(reason)
    (image,) = keeping.import_archive(docker_archive(scratch / "a.tar", LAYERS, ["example.org/out:1"]))
    export_image(keeping.layout.root, image.id, scratch / "out.tar")
    with PrivateContainerd() as containerd:
        containerd.ctr("images", "import", str(scratch / "out.tar"))
        assert "example.org/out:1" in containerd.ctr("images", "ls", "-q")
        assert image.id in containerd.ctr("content", "ls")
