"""Messages of the channels of exec and attach."""

import json
from typing import Any

import pytest

from modules.processes.common.pod_commands.channels import (
    CommandExit,
    end_of_input,
    input_message,
    result_of,
    size_message,
)


def failure(**fields: Any) -> bytes:
    return json.dumps({"kind": "Status", "status": "Failure", **fields}).encode()


@pytest.mark.parametrize(
    ("content", "result"),
    [
        (b'{"metadata":{},"status":"Success"}', CommandExit(0)),
        (
            failure(
                reason="NonZeroExitCode",
                message="command terminated with non-zero exit code",
                details={"causes": [{"reason": "ExitCode", "message": "7"}]},
            ),
            CommandExit(7),
        ),
        (failure(reason="InternalError", message="no such file"), CommandExit(1, "no such file")),
        (failure(reason="NonZeroExitCode", message="odd", details={}), CommandExit(1, "odd")),
        (failure(), CommandExit(1, "the command could not be run")),
        (b"not json", CommandExit(1, "not json")),
    ],
)
def test_how_a_command_ended(content: bytes, result: CommandExit) -> None:
    assert result_of(content) == result


def test_reports_on_the_channels() -> None:
    assert input_message(b"ls\n") == b"\x00ls\n"
    assert end_of_input() == b"\xff\x00"
    assert size_message(80, 24) == b'\x04{"Width":80,"Height":24}'
