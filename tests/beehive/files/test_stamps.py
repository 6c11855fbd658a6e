"""A stamp tells that a file has changed, also within one tick of the file system's clock."""

import os
from pathlib import Path

import pytest

from beehive.files.stamps import SETTLED_SECONDS, stamp_of

NOW = 1_800_000_000.0


@pytest.mark.parametrize(
    ("looks", "differ"),
    [
        ((0.0, SETTLED_SECONDS), True),
        ((0.0, SETTLED_SECONDS / 2), False),
        ((SETTLED_SECONDS, 9e9), False),
        ((-9e8, -8e8), False),
        ((-SETTLED_SECONDS / 2, SETTLED_SECONDS), True),
    ],
    ids=["settled meanwhile", "not yet", "settled before", "clock set back", "other clock"],
)
def test_a_file_is_looked_at_again_once_its_last_change_is_some_time_ago(
    tmp_path: Path, looks: tuple[float, float], *, differ: bool
) -> None:
    (tmp_path / "f").touch()
    os.utime(tmp_path / "f", (NOW, NOW))
    first, second = (stamp_of((tmp_path / "f").stat(), NOW + after) for after in looks)
    assert (first != second) is differ
    assert first.is_of_state(second)
    (tmp_path / "f").write_text("more")
    assert not first.is_of_state(stamp_of((tmp_path / "f").stat(), NOW))
