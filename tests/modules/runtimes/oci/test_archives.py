"""Archives of images in the node's directory: imported once, again when they change or an image is wanted."""

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import grpc
import pytest

from modules.runtimes.engine.errors import BadRequestError, RequestRefusedError, TooManyError
from modules.runtimes.oci.archives import ImageArchives, last_import
from modules.runtimes.oci.image_service import image_methods
from modules.runtimes.oci.images.errors import RegistryUnavailableError
from protos.cri.v1 import api_pb2 as cri
from tests.modules.runtimes.oci.node import OciNode
from tests.support.images import busybox_image, docker_archive

NAME = "example.org/own:1"


def _images(node: OciNode) -> set[str]:
    listed = node.images.ListImages(cri.ListImagesRequest()).images
    return {tag for image in listed for tag in image.repo_tags}


def _add(node: OciNode, **labels: str) -> Path:
    archive = docker_archive(busybox_image(NAME, Labels=labels), node.directory)
    return Path(shutil.move(archive, node.directory / "archives" / "own.tar"))


def test_a_new_archive_is_imported_when_images_are_listed(node: OciNode) -> None:
    before = _images(node)
    _add(node, one="1")
    assert _images(node) == before | {NAME}


def test_a_removed_image_comes_back_when_it_is_wanted(node: OciNode) -> None:
    """And not before: collection of images would be in vain."""
    _add(node, one="1")
    spec = cri.ImageSpec(image=NAME)
    first = node.images.ImageStatus(cri.ImageStatusRequest(image=spec)).image.id
    node.images.RemoveImage(cri.RemoveImageRequest(image=spec))
    assert NAME not in _images(node)
    node.restart()
    assert NAME not in _images(node)
    assert node.images.ImageStatus(cri.ImageStatusRequest(image=spec)).image.id == first


def test_a_changed_archive_is_imported_again(node: OciNode) -> None:
    _add(node, one="1")
    spec = cri.ImageSpec(image=NAME)
    first = node.images.ImageStatus(cri.ImageStatusRequest(image=spec)).image.id
    _add(node, two="2")
    second = node.images.ImageStatus(cri.ImageStatusRequest(image=spec)).image.id
    assert first != second


def test_other_bytes_than_an_archive_end_nothing(node: OciNode, caplog: pytest.LogCaptureFixture) -> None:
    """It is logged once, and the others are there."""
    (node.directory / "archives" / "bad.tar").write_bytes(b"no tar at all")
    before = _images(node)
    assert before
    assert _images(node) == before
    assert sum("bad.tar" in record.getMessage() for record in caplog.records) == 1


@pytest.mark.parametrize("problem", ["", 'cannot import the images of "own.tar": it is no archive of images'])
def test_a_pull_that_fails_names_the_archive_that_could_not_be_imported(problem: str) -> None:
    """The image may be in it: otherwise the pod says only that the registry is out of reach."""

    def refuse(*_: object) -> None:
        raise RegistryUnavailableError("pull 'own:1'", "no route to host")

    stub = cast("Any", SimpleNamespace(pull=refuse, listing=None, remove=None, problem=lambda: problem))
    pull = image_methods(stub, stub, stub, stub)["PullImage"]
    with pytest.raises(RegistryUnavailableError) as refused:
        pull(cri.PullImageRequest(), lambda _: None)
    assert refused.value.reason == "no route to host" + (f"; {problem}" if problem else "")


def test_an_image_that_a_container_uses_stays_for_it(node: OciNode) -> None:
    """Removed images are found no more, but their containers start."""
    _add(node, one="1")
    assert NAME in _images(node)
    container = node.create(["true"], cri.ContainerConfig(image=cri.ImageSpec(image=NAME)))
    (node.directory / "archives" / "own.tar").unlink()
    node.images.RemoveImage(cri.RemoveImageRequest(image=cri.ImageSpec(image=NAME)))
    node.start(container)
    assert node.ended(container).exit_code == 0
    with pytest.raises(grpc.RpcError, match="there is no image"):
        node.create(["true"], cri.ContainerConfig(image=cri.ImageSpec(image=NAME)))


class Store:
    """A store that cannot import archives; it has one image."""

    def __init__(self, root: Path, error: RequestRefusedError | None) -> None:
        self.layout = SimpleNamespace(root=root)
        self.error = error
        self.tried = 0

    def find(self, name: str) -> str | None:
        """Find an image."""
        return name if name == "example.org/there:1" else None

    def import_archive(self, _: Path) -> tuple[Any, ...]:
        """Import an archive."""
        self.tried += 1
        if self.error is not None:
            raise self.error
        return (SimpleNamespace(id="sha256:1", names=(NAME,)),)


def test_an_archive_for_which_there_was_no_room_is_tried_again_for_a_missing_image(tmp_path: Path) -> None:
    """And for nothing else: an import takes long. A wrong one would be wrong again. The record says why."""
    own = tmp_path / "own.tar"
    own.write_bytes(b"archive")
    assert last_import(own, tmp_path) is None
    full = Store(tmp_path, TooManyError("import it", "less than 9 bytes of the disk would stay free"))
    archives = ImageArchives(tmp_path, cast("Any", full))
    for wanted, tried in (("", 1), ("", 1), ("example.org/there:1", 1), (NAME, 2), ("", 2), ("other", 3)):
        archives.refresh(wanted)
        assert full.tried == tried
        failed = last_import(own, tmp_path)
        assert failed is not None
        assert (failed.may_work, failed.problem) == (True, str(full.error))
        assert archives.problem() == str(full.error)
    full.error = None
    for tried, wanted in ((3, ""), (4, NAME), (4, ""), (4, "other")):
        archives.refresh(wanted)
        assert full.tried == tried
    worked = last_import(own, tmp_path)
    assert ImageArchives(tmp_path, cast("Any", full))._known == archives._known == {"own.tar": worked}
    assert worked is not None
    assert worked.problem == archives.problem() == ""
    (tmp_path / "archives.json").unlink()
    wrong = Store(tmp_path, BadRequestError("import it", "it is no archive of images"))
    archives = ImageArchives(tmp_path, cast("Any", wrong))
    for wanted in ("", NAME, "other"):
        archives.refresh(wanted)
    assert wrong.tried == 1
