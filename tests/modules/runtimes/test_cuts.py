"""A kill or a power cut at each step of what container runtimes keep; `engine` and `oci/images` have further ones."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from beehive.clock import RealClock
from beehive.files.damaged import DIRECTORY as DAMAGED
from modules.runtimes.engine import journal as journal_module
from modules.runtimes.engine.journal import Journal
from modules.runtimes.oci.images.index import ImageIndex
from modules.runtimes.oci.images.model import ImageConfig, StoredImage
from modules.runtimes.process.images import ProcessImages
from protos.cri.v1 import api_pb2 as cri
from tests.support.power_cuts import Cut, Loss, Promise, after_each_cut

Life = Callable[[Promise], object]
Check = Callable[[Cut], object]


def names(root: Path) -> tuple[Life, Check]:
    """Names of images on the process runtime."""

    def life(promise: Promise) -> None:
        images = ProcessImages(root, RealClock())
        for name in ("a", "b"):
            promise(images.pull(cri.PullImageRequest(image=cri.ImageSpec(image=name))).image_ref)

    def check(cut: Cut) -> None:
        found = ProcessImages(root, RealClock()).listing(cri.ListImagesRequest()).images
        assert {image.id for image in found} >= set(cut.promised)
        assert not (root / DAMAGED).exists()

    return life, check


def index(root: Path) -> tuple[Life, Check]:
    """The index of images: a tag belongs to one image, whose layers were there before."""
    path = root / "index.json"
    old, new = (StoredImage(f"sha256:{name}", ("web:1",), (), ImageConfig(), (), {}) for name in ("old", "new"))
    ImageIndex(path).add([old])

    def life(promise: Promise) -> None:
        known = ImageIndex(path)
        known.add([new])
        promise("moved")
        known.drop([old.id])
        promise("dropped")

    def check(cut: Cut) -> None:
        known = ImageIndex(path)
        found = known.find("web:1")
        assert found is not None
        assert found.id in ((new.id,) if cut.promised else (old.id, new.id))
        assert ("dropped" not in cut.promised) or known.by_id(old.id) is None
        assert not (root / DAMAGED).exists()

    return life, check


def journal(root: Path) -> tuple[Life, Check]:
    """The engine's journal, while it is written anew: it has all that was flushed."""
    containers = root / "containers"
    for name in "abcd":
        (containers / name).mkdir(parents=True)

    def life(promise: Promise) -> None:
        kept = Journal(root, "first")
        for number, name in enumerate("abcd"):
            kept.write(containers / name / "record.json", b"%d" % number * 100)
            kept.flush()
            promise(name)
        kept.close()

    def check(cut: Cut) -> None:
        boot = "first" if cut.loss is Loss.NOTHING else "second"
        kept = Journal(root, boot)
        kept.restore(containers.iterdir(), "record.json")
        kept.close()
        for number, name in enumerate(cut.promised):
            assert (containers / name / "record.json").read_bytes() == b"%d" % number * 100

    return life, check


WRITERS: Final = {made.__name__: made for made in (names, index, journal)}


@pytest.mark.parametrize("name", WRITERS)
def test_a_cut_at_any_step_leaves_the_old_or_the_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(journal_module, "_LARGEST", 400)
    assert after_each_cut(tmp_path, *WRITERS[name](tmp_path)) >= 3
