"""Law of the image store over random lives: a name leads to its newest image, and a container's image stays."""

from pathlib import Path
from random import Random
from typing import Final

import pytest

from beehive.files import durable
from beehive.simulation import Simulation
from modules.runtimes.oci.images.errors import NoSuchObjectError
from modules.runtimes.oci.images.model import ImageConfig, StoredImage
from modules.runtimes.oci.images.store import ImageStore
from protos.cri.v1 import api_pb2 as cri

_TAGS: Final = tuple(f"docker.io/library/{name}:1" for name in ("a", "b", "c"))
_IDS: Final = tuple("sha256:" + digit * 64 for digit in "123")


class Life:
    """A store, and what there must be in it."""

    def __init__(self, root: Path, random: Random) -> None:
        self.random = random
        self._root = root
        self.tags: dict[str, str] = {}
        self.present: set[str] = set()
        self.removed: set[str] = set()
        """Images that only containers have."""
        self.holders: dict[str, str] = {}
        self.restart()

    def restart(self) -> None:
        """Another process begins with the containers that there are."""
        self.store = ImageStore(self._root, Simulation(0).clock, self._root)
        self.store.keep_only(self.holders)

    def add(self) -> None:
        """A pull has unpacked an image."""
        image_id, tags = self.random.choice(_IDS), self.random.sample(_TAGS, self.random.randint(1, 2))
        self.store._added([StoredImage(image_id, tuple(tags), (), ImageConfig(), (), {})])
        self.tags |= dict.fromkeys(tags, image_id)
        self.present.add(image_id)
        self.removed.discard(image_id)

    def remove(self) -> None:
        """Somebody removes an image, by a name, or by its id."""
        name = self.random.choice((*_TAGS, *_IDS))
        image_id = self.tags.get(name, name)
        self.store.remove(cri.RemoveImageRequest(image=cri.ImageSpec(image=name)))
        if image_id in self.present:
            self.present.discard(image_id)
            self.tags = {tag: of for tag, of in self.tags.items() if of != image_id}
            if image_id in self.holders.values():
                self.removed.add(image_id)

    def hold(self) -> None:
        """A container is created."""
        holder, image_id = self.random.choice("xyz"), self.random.choice(_IDS)
        if holder in self.holders:
            return
        if image_id in self.present | self.removed:
            self.store.hold(holder, image_id)
            self.holders[holder] = image_id
        else:
            with pytest.raises(NoSuchObjectError):
                self.store.hold(holder, image_id)

    def release(self) -> None:
        """A container is removed."""
        holder = self.random.choice("xyz")
        self.store.release(holder)
        image_id = self.holders.pop(holder, "")
        if image_id not in self.holders.values():
            self.removed.discard(image_id)

    def check(self) -> None:
        """Check what requests and containers find."""
        for tag in _TAGS:
            found = self.store.find(tag)
            assert (found and found.id) == self.tags.get(tag)
        for image_id in _IDS:
            found = self.store.find(image_id)
            assert (found is not None) is (image_id in self.present)
            if image_id in self.present | self.removed:
                assert self.store.get(image_id).id == image_id
            else:
                with pytest.raises(NoSuchObjectError):
                    self.store.get(image_id)
        images = self.store.listing(cri.ListImagesRequest()).images
        assert {each.id: set(each.repo_tags) for each in images} == {
            image_id: {tag for tag, of in self.tags.items() if of == image_id} for image_id in self.present
        }


@pytest.mark.parametrize("seed", range(6))
def test_names_lead_to_their_images_and_containers_keep_theirs(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = Random(seed)  # noqa: S311 - reproducible
    life, is_full = Life(tmp_path, random), False

    def replace_file(path: Path, content: bytes) -> None:
        if is_full:
            raise OSError(28, "No space left on device")
        durable.replace_file(path, content)

    monkeypatch.setattr("modules.runtimes.oci.images.index.replace_file", replace_file)
    for _ in range(120):
        is_full = random.random() < 0.1
        if is_full:
            with pytest.raises(OSError, match="No space"):
                life.store._added([StoredImage(random.choice(_IDS), _TAGS, (), ImageConfig(), (), {})])
            is_full = False
        random.choice((life.add, life.add, life.remove, life.hold, life.release, life.restart))()
        life.check()
