"""The recorded messages of a real KubeEdge, as tests of the cloud side replay them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from tests.interop import traces
from tests.interop.traces import is_message, lines_of

__all__ = ["Step", "recordings", "steps_of"]


class Step(msgspec.Struct, frozen=True):
    """One websocket message of a recording."""

    from_edge: bool
    message: dict[str, Any]

    @property
    def id(self) -> str:
        """The message's id."""
        return str(self.message["header"]["msg_id"])

    @property
    def parent(self) -> str:
        """The id of the message that it answers, or empty."""
        return str(self.message["header"].get("parent_msg_id", ""))

    @property
    def operation(self) -> str:
        """What is done."""
        return str(self.message["route"]["operation"])

    @property
    def resource(self) -> str:
        """To what."""
        return str(self.message["route"]["resource"])

    @property
    def content(self) -> Any:
        """With what."""
        return self.message["content"]


def recordings(year: str = "today") -> list[Path]:
    """The files of one recording, in order of time."""
    return traces.recordings(year)


def steps_of(path: Path) -> Iterator[Step]:
    """The websocket messages of a file."""
    for entry in lines_of(path):
        if is_message(entry):
            yield Step(entry["dir"] == "edge->cloud", entry["msg"])
