"""An image loses one of its names, or those that another image has now."""

from modules.runtimes.oci.images.model import ImageConfig, StoredImage
from modules.runtimes.oci.images.names import without_name, without_names

_DIGEST = f"docker.io/library/app@sha256:{'0' * 64}"
_IMAGE = StoredImage(
    id=f"sha256:{'1' * 64}",
    repo_tags=("docker.io/library/app:1", "docker.io/library/app:2"),
    repo_digests=(_DIGEST,),
    config=ImageConfig(),
    chain=(),
    documents={},
)


def test_one_name_of_several_goes() -> None:
    left = without_name(_IMAGE, "app:1")
    assert left is not None
    assert (left.repo_tags, left.repo_digests) == (("docker.io/library/app:2",), (_DIGEST,))
    left = without_name(_IMAGE, _DIGEST)
    assert left is not None
    assert (left.repo_tags, left.repo_digests) == (_IMAGE.repo_tags, ())


def test_neither_the_last_tag_nor_what_is_no_name_goes() -> None:
    last = without_names(_IMAGE, ["docker.io/library/app:1"])
    assert last.repo_tags == ("docker.io/library/app:2",)
    assert without_name(last, "docker.io/library/app:2") is None
    assert without_name(_IMAGE, _IMAGE.id) is None
