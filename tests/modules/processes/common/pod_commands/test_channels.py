"""How a command of exec or attach ends."""

import json
from typing import Any

import pytest

from modules.processes.common.pod_commands.channels import CommandExit, result_of


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
