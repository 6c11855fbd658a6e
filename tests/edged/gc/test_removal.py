"""What a collector remembers of removals that were not answered."""

import pytest
from grpc import StatusCode

from edged.cri.errors import DeadlineExceededError
from edged.gc.removal import Removals


class Named:
    """A container."""

    def __init__(self, name: str) -> None:
        self.id = name


def test_who_is_gone_is_remembered_no_longer() -> None:
    """Each pod of years would have left its name."""
    removals = Removals()

    def late() -> None:
        raise DeadlineExceededError("RemoveContainer", "a", StatusCode.DEADLINE_EXCEEDED, "")

    for name in ("a", "b"):
        with pytest.raises(DeadlineExceededError):
            removals.is_removed(name, late)
    removals.keep({"b", "c"})
    assert removals._late == {"b"}
    assert [each.id for each in removals.ordered([Named("a"), Named("b"), Named("c")])] == ["a", "c", "b"]
