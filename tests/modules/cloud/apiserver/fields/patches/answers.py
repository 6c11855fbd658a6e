"""The recorded results of kubectl for drawn patches."""

import json
import lzma
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import msgspec

from beehive.decoding import decode_json
from tests.modules.cloud.apiserver.fields.patches.drawing import Drawn

FILE: Final = Path(__file__).with_name("answers.jsonl.xz")
CASES: Final = 360


class Answer(msgspec.Struct, frozen=True):
    """A case, and kubectl's result of it; None for a refusal."""

    case: Drawn
    result: dict[str, Any] | None


def read() -> list[Answer]:
    """Return the recorded answers."""
    return [decode_json(line, Answer) for line in lzma.decompress(FILE.read_bytes()).splitlines()]


def write(answers: Iterable[Answer]) -> None:
    """Record answers."""
    lines = [json.dumps(msgspec.to_builtins(one), sort_keys=True) for one in answers]
    FILE.write_bytes(lzma.compress("\n".join(lines).encode(), preset=9))
