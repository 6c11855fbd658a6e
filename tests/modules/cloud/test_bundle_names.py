"""Which files of a directory are bundles of edgecore."""

from pathlib import Path

from modules.cloud.bundle_names import bundle_versions


def test_a_file_that_is_not_whole_yet_is_no_bundle(tmp_path: Path) -> None:
    """A node could not fetch the version."""
    name = "edgecore-{}-cp311-linux_x86_64.bundle"
    for each in ("0.7.1", "0.7.0"):
        (tmp_path / name.format(each)).touch()
    for each in (f"{name}.part", f"{name}.sha256", f"a-{name}"):
        (tmp_path / each.format("0.8.0")).touch()
    assert bundle_versions(tmp_path) == ["0.7.0", "0.7.1"]
