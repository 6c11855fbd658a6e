"""The flight recorder's estimate of a call's memory, the basis of its limit."""

from typing import Any

import pytest

from edged.cri import ExecResult
from edged.cri.recording import CriEntry, packed
from protos.cri.v1 import api_pb2 as cri

_SANDBOX = cri.PodSandbox(id="x" * 1000)


def size(answer: Any, **arguments: Any) -> int:
    given = {name: packed(value) for name, value in arguments.items()}
    return CriEntry(0.0, 1, 0, 1, "", "call", given, packed(answer), None, 0.0).size


@pytest.mark.parametrize(
    ("answer", "arguments"),
    [
        (cri.ListPodSandboxResponse(items=[_SANDBOX] * 20).items, {}),
        (ExecResult(b"x" * 20_000, b"", 0), {}),
        (None, {"config": cri.PodSandboxConfig(log_directory="x" * 20_000)}),
        (None, {"command": ["x" * 20_000]}),
    ],
)
def test_lists_output_and_arguments_count(answer: Any, arguments: dict[str, Any]) -> None:
    assert size(answer, **arguments) > size(None) + 20_000
