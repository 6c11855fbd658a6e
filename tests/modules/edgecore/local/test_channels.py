"""What goes over the channels of exec and attach."""

import json
from typing import Any

import pytest

from modules.edgecore.local.channels import Result, end_of_input, input_message, result_of, size_message


def failure(**fields: Any) -> bytes:
    return json.dumps({"kind": "Status", "status": "Failure", **fields}).encode()


@pytest.mark.parametrize(
    ("content", "result"),
    [
        (b'{"metadata":{},"status":"Success"}', Result(0)),
        (
            failure(
                reason="NonZeroExitCode",
                message="command terminated with non-zero exit code",
                details={"causes": [{"reason": "ExitCode", "message": "7"}]},
            ),
            Result(7),
        ),
        (failure(reason="InternalError", message="no such file"), Result(1, "no such file")),
        (failure(reason="NonZeroExitCode", message="odd", details={}), Result(1, "odd")),
        (failure(), Result(1, "the command could not be run")),
        (b"not json", Result(1, "not json")),
    ],
)
def test_how_a_command_ended(content: bytes, result: Result) -> None:
    assert result_of(content) == result


def test_what_is_said_on_the_channels() -> None:
    assert input_message(b"ls\n") == b"\x00ls\n"
    assert end_of_input() == b"\xff\x00"
    assert size_message(80, 24) == b'\x04{"Width":80,"Height":24}'
