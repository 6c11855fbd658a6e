"""The image service of a runtime without images: every name counts as present, commands come from the machine.

Pulled and used names are remembered, so that listing and removing behave as clients expect. An image's id is made from
its name.
"""

import hashlib
import threading
from pathlib import Path
from typing import Final

import msgspec

from beehive.clock import Clock
from beehive.decoding import decode_json
from beehive.files.damaged import set_aside
from beehive.files.descriptors import raise_shortage
from beehive.files.durable import replace_file
from beehive.files.reading import read_file
from modules.runtimes.engine.views import required_name, whole_file_system
from protos.cri.v1 import api_pb2 as cri

_ID_PREFIX = "sha256:"
_ONLY_A_NAME: Final = "edgecore.io/only-a-name"
"""Annotation of an image's spec that keeps edged's event Pulled from claiming that an image is on the machine."""
_LONGEST = 16 * 1024 * 1024
"""Bytes read of the file of names."""
_MOST_TOLD = 1000
_NOMINAL_SIZE = 1
"""Bytes. Clients modelled on kubelet take an image of size zero for a missing one."""


def image_id(name: str) -> str:
    """Return the id of image `name`; an id is returned as it is."""
    return name if name.startswith(_ID_PREFIX) else _ID_PREFIX + hashlib.sha256(_tagged(name).encode()).hexdigest()


def _tagged(name: str) -> str:
    last = name.rpartition("/")[2]
    return name if ":" in last or "@" in last else f"{name}:latest"


class ProcessImages:
    """The ImageService: remembers image names in a file of the state directory."""

    def __init__(self, root: Path, clock: Clock) -> None:
        self._root = root
        self._file = root / "images.json"
        self._clock = clock
        self._lock = threading.Lock()
        self._told: dict[str, str] = {}
        """Names whose id a client may have from `status`, which keeps nothing."""
        self._names: dict[str, str] = {image_id(name): name for name in _read_names(self._file)}

    def remember(self, name: str) -> None:
        """Add `name` to the names seen."""
        if name and not name.startswith(_ID_PREFIX):
            self._change({image_id(name): _tagged(name)}, forget="")

    def pull(self, request: cri.PullImageRequest) -> cri.PullImageResponse:
        """PullImage: nothing is fetched."""
        name = required_name(request.image)
        self.remember(name)
        return cri.PullImageResponse(image_ref=image_id(name))

    def status(self, request: cri.ImageStatusRequest) -> cri.ImageStatusResponse:
        """ImageStatus: present, unless the request has an id of no name seen here.

        A client may use the id in the answer instead of the name.
        """
        name = required_name(request.image)
        known = self._names.get(name) or self._told.get(name)
        if name.startswith(_ID_PREFIX) and known is None:
            return cri.ImageStatusResponse()
        if not name.startswith(_ID_PREFIX):
            self._remember(name)
        return cri.ImageStatusResponse(image=_image(known or name))

    def listing(self, request: cri.ListImagesRequest) -> cri.ListImagesResponse:
        """ListImages: the names seen."""
        wanted = request.filter.image.image
        images = [_image(name) for key, name in sorted(self._names.items()) if not wanted or key == image_id(wanted)]
        return cri.ListImagesResponse(images=images)

    def remove(self, request: cri.RemoveImageRequest) -> cri.RemoveImageResponse:
        """RemoveImage: forgets the name; no error for an unknown one."""
        self._change({}, forget=image_id(required_name(request.image)))
        return cri.RemoveImageResponse()

    def file_system(self, _: cri.ImageFsInfoRequest) -> cri.ImageFsInfoResponse:
        """ImageFsInfo: usage of the file system of the state directory."""
        return whole_file_system(self._root, self._clock.now_ns())

    def _remember(self, name: str) -> None:
        with self._lock:
            self._told = {**self._told, image_id(name): _tagged(name)}
            if len(self._told) > _MOST_TOLD:
                self._told.pop(next(iter(self._told)))

    def _change(self, new: dict[str, str], forget: str) -> None:
        with self._lock:
            self._told = {key: name for key, name in self._told.items() if key != forget}
            names = {key: name for key, name in {**self._names, **new}.items() if key != forget}
            if names != self._names:
                replace_file(self._file, msgspec.json.encode(sorted(names.values())))
                self._names = names


def _read_names(path: Path) -> list[str]:
    """Return the remembered names. They are a convenience, so an unreadable file is set aside.

    Raises OSError for a shortage of the process or machine.
    """
    try:
        return decode_json(read_file(path, _LONGEST), list[str])
    except FileNotFoundError:
        return []
    except (OSError, msgspec.MsgspecError) as error:
        raise_shortage(error)
        set_aside(path, path.parent, str(error))
        return []


def _image(name: str) -> cri.Image:
    key = image_id(name)
    repository = name.partition("@")[0].removesuffix(":" + _tagged(name).rpartition(":")[2])
    return cri.Image(
        id=key,
        repo_tags=[] if "@" in name else [_tagged(name)],
        repo_digests=[name if "@" in name else f"{repository}@{key}"],
        size=_NOMINAL_SIZE,
        spec=cri.ImageSpec(image=name, annotations={_ONLY_A_NAME: "true"}),
    )
