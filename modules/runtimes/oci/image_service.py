"""The methods of CRI's ImageService on the image store."""

from typing import Any, Final

import msgspec

from beehive.decoding import decode_json
from beehive.files.reading import read_file
from modules.runtimes.engine.driver import OnEnd, WatchingMethod
from modules.runtimes.engine.errors import NoSuchObjectError, RequestRefusedError
from modules.runtimes.engine.inspection import image_info
from modules.runtimes.engine.registry import Registry
from modules.runtimes.oci.archives import ImageArchives
from modules.runtimes.oci.images import ImageStore, RootFilesystems, StorageUsage
from modules.runtimes.oci.model import OciContainer
from protos.cri.v1 import api_pb2 as cri

_LARGEST_CONFIG: Final = 16 * 1024 * 1024
"""Bytes of an image's configuration."""


def image_methods(
    images: ImageStore, archives: ImageArchives, roots: RootFilesystems, registry: Registry[OciContainer]
) -> dict[str, WatchingMethod]:
    """Return the methods by name.

    Args:
        images: the store.
        archives: are imported before a listing or a status, if they have changed.
        roots: have the writable layers of containers, which count in the usage of storage.
        registry: of the containers.
    """

    def listing(request: cri.ListImagesRequest, _: OnEnd) -> cri.ListImagesResponse:
        archives.refresh()
        return images.listing(request)

    def status(request: cri.ImageStatusRequest, _: OnEnd) -> cri.ImageStatusResponse:
        archives.refresh(request.image.image)
        answer = images.status(request)
        if request.verbose and answer.HasField("image"):
            answer.info.update(_info(images, answer.image.id))
        return answer

    def pull(request: cri.PullImageRequest, on_end: OnEnd) -> cri.PullImageResponse:
        try:
            return images.pull(request, on_end)
        except RequestRefusedError as error:
            problem = archives.problem()
            if not problem:
                raise
            raise type(error)(error.attempt, f"{error.reason}; {problem}", error.hint) from error

    def file_system(_: cri.ImageFsInfoRequest, __: OnEnd) -> cri.ImageFsInfoResponse:
        used = [roots.usage(each.directory) for each in registry.containers()]
        return images.file_system(StorageUsage(sum(each.bytes for each in used), sum(each.inodes for each in used)))

    return {
        "ListImages": listing,
        "ImageStatus": status,
        "PullImage": pull,
        "RemoveImage": lambda request, _: images.remove(request),
        "ImageFsInfo": file_system,
    }


def _info(images: ImageStore, image_id: str) -> dict[str, str]:
    """Return the configuration of an image as its registry has it; nothing if it was just removed."""
    try:
        chain = images.get(image_id).chain
        specification = decode_json(read_file(images.layout.blob(image_id), _LARGEST_CONFIG), dict[str, Any])
    except (NoSuchObjectError, OSError, msgspec.MsgspecError):
        return {}
    return image_info(specification, chainID=chain[-1] if chain else "")
