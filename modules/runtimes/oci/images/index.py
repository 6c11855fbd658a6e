"""The store's index: all images, in one file that a power cut leaves whole."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from beehive.decoding import decode_json
from beehive.files.damaged import set_aside
from beehive.files.descriptors import raise_shortage
from beehive.files.durable import replace_file
from beehive.files.reading import read_file
from modules.runtimes.oci.images.errors import RunFailedError
from modules.runtimes.oci.images.model import StoredImage
from modules.runtimes.oci.images.names import name_of, with_names, without_names

_LONGEST: Final = 256 * 1024 * 1024
_SHORTEST_ID: Final = 3
"""Hexadecimal digits of an abbreviated id."""
_PREFIX: Final = "sha256:"


class ImageIndex:
    """The images by id. Not thread-safe: the store has the lock.

    Args:
        path: of the file. A damaged one is set aside, and the images count as absent until they are pulled again, which
            is quick: their layers are still there.
        is_owner: whether this process has the store; for others, RunFailedError tells of a damaged file.
    """

    def __init__(self, path: Path, *, is_owner: bool = True) -> None:
        self._path = path
        self._images: dict[str, StoredImage] = {image.id: image for image in _read(path, is_owner=is_owner)}

    def images(self) -> tuple[StoredImage, ...]:
        """Return the images that requests find."""
        return tuple(image for image in self._images.values() if not image.removed)

    def all_images(self) -> tuple[StoredImage, ...]:
        """Return also the removed ones, which containers still use."""
        return tuple(self._images.values())

    def by_id(self, image_id: str) -> StoredImage | None:
        """Return an image by its full id, also a removed one."""
        return self._images.get(image_id)

    def find(self, text: str) -> StoredImage | None:
        """Return the image of an id, a unique beginning of an id, a tag or a digest."""
        exact = self._images.get(text) or self._images.get(_PREFIX + text)
        if exact is not None:
            return None if exact.removed else exact
        name = name_of(text)
        for image in self.images():
            if text in image.names or name in image.names:
                return image
        return self._abbreviated(text.removeprefix(_PREFIX))

    def add(self, images: Iterable[StoredImage]) -> None:
        """Add images, durably; a tag that another image had moves. Raises OSError, and then changes nothing."""
        known = dict(self._images)
        for image in images:
            for other in known.values():
                if other.id != image.id and set(other.repo_tags) & set(image.repo_tags):
                    known[other.id] = without_names(other, image.repo_tags)
            before = known.get(image.id)
            known[image.id] = image if before is None or before.removed else with_names(image, before)
        self._write(known)

    def replace(self, image: StoredImage) -> None:
        """Replace an image, durably. Raises OSError."""
        self._write({**self._images, image.id: image})

    def drop(self, image_ids: Iterable[str]) -> None:
        """Forget images, durably. Raises OSError."""
        dropped = set(image_ids)
        if dropped & self._images.keys():
            self._write({key: image for key, image in self._images.items() if key not in dropped})

    def _abbreviated(self, text: str) -> StoredImage | None:
        if len(text) < _SHORTEST_ID:
            return None
        found = [image for image in self.images() if image.id.startswith(_PREFIX + text)]
        return found[0] if len(found) == 1 else None

    def _write(self, images: Mapping[str, StoredImage]) -> None:
        replace_file(self._path, msgspec.json.encode(list(images.values())))
        self._images = dict(images)


def _read(path: Path, *, is_owner: bool) -> tuple[StoredImage, ...]:
    try:
        return decode_json(read_file(path, _LONGEST), tuple[StoredImage, ...])
    except FileNotFoundError:
        return ()
    except (OSError, msgspec.MsgspecError) as error:
        if not is_owner:
            raise RunFailedError(f"read {path}", str(error)) from error
        raise_shortage(error)
        set_aside(path, path.parent, str(error))
        return ()
