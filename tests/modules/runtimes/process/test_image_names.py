"""Names of images on the process runtime."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from beehive import RealClock
from modules.runtimes.process import images as images_module
from modules.runtimes.process.images import ProcessImages
from protos.cri.v1 import api_pb2 as cri
from tests.support.failing import Failing, PlannedError


def test_the_id_of_an_answer_names_the_image_until_it_is_removed(tmp_path: Path) -> None:
    images, name = ProcessImages(tmp_path, RealClock()), cri.ImageSpec(image="busybox:1.36")
    found = images.status(cri.ImageStatusRequest(image=name)).image
    by_id = cri.ImageStatusRequest(image=cri.ImageSpec(image=found.id))
    assert images.status(by_id).image == found
    assert not images.listing(cri.ListImagesRequest()).images
    images.remove(cri.RemoveImageRequest(image=name))
    assert not images.status(by_id).HasField("image")


def test_a_name_that_could_not_be_stored_is_stored_by_the_next_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be gone with the process, although a container uses it."""
    images = ProcessImages(tmp_path, RealClock())
    with monkeypatch.context() as full:
        full.setattr(images_module, "replace_file", Failing(0).call(print))
        with pytest.raises(PlannedError):
            images.remember("busybox:1.36")
    assert not images.listing(cri.ListImagesRequest()).images
    images.remember("busybox:1.36")
    assert len(ProcessImages(tmp_path, RealClock()).listing(cri.ListImagesRequest()).images) == 1


def test_names_that_clients_have_asked_for_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest ones are known by their ids."""
    monkeypatch.setattr(images_module, "_MOST_TOLD", 2)
    images = ProcessImages(tmp_path, RealClock())
    asked = [cri.ImageSpec(image=f"busybox:{number}") for number in range(4)]
    ids = [images.status(cri.ImageStatusRequest(image=each)).image.id for each in asked]
    by_id = [images.status(cri.ImageStatusRequest(image=cri.ImageSpec(image=each))) for each in ids]
    assert [each.HasField("image") for each in by_id] == [False, False, True, True]


def test_the_usage_of_the_file_system_is_in_bytes_and_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The node's garbage collection and eviction go by it."""
    found = SimpleNamespace(f_blocks=100, f_bfree=30, f_frsize=4096, f_files=50, f_ffree=20)
    monkeypatch.setattr(os, "statvfs", lambda _: found)
    answer = ProcessImages(tmp_path, RealClock()).file_system(cri.ImageFsInfoRequest())
    assert [(one.used_bytes.value, one.inodes_used.value) for one in answer.image_filesystems] == [(70 * 4096, 30)]
    assert answer.container_filesystems == answer.image_filesystems
