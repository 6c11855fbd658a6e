"""Names of images on the process runtime."""

from pathlib import Path

from beehive import RealClock
from modules.runtimes.process.images import ProcessImages
from protos.cri.v1 import api_pb2 as cri


def test_the_id_of_an_answer_names_the_image_until_it_is_removed(tmp_path: Path) -> None:
    images, name = ProcessImages(tmp_path, RealClock()), cri.ImageSpec(image="busybox:1.36")
    found = images.status(cri.ImageStatusRequest(image=name)).image
    by_id = cri.ImageStatusRequest(image=cri.ImageSpec(image=found.id))
    assert images.status(by_id).image == found
    assert not images.listing(cri.ListImagesRequest()).images
    images.remove(cri.RemoveImageRequest(image=name))
    assert not images.status(by_id).HasField("image")
