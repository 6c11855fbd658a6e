"""Paths in requests: most need no second look, and it finds the same."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beehive.patterns import pattern
from modules.runtimes.engine.errors import BadRequestError
from modules.runtimes.oci.spec import paths
from modules.runtimes.oci.spec.paths import checked_path


def _answer(path: str) -> str:
    try:
        return checked_path("attempt", path, "the path")
    except BadRequestError as error:
        return str(error)


@given(st.lists(st.sampled_from(["/", "/", ".", "..", "a", "b" * 60, "ä", "\0"]), max_size=80).map("".join))
def test_a_plain_path_is_no_exception(path: str) -> None:
    """A path that is taken as it is would not be refused, or written in another way, by the whole check."""
    quick = _answer(path)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(paths, "_PLAIN", pattern("(?!)"))
        assert quick == _answer(path)
