"""The output of a command."""

from modules.processes.common.pod_commands.channels import Channel


class Output:
    """Output by channel."""

    def __init__(self) -> None:
        self.bytes = {Channel.STDOUT: b"", Channel.STDERR: b""}

    def __call__(self, channel: Channel, piece: bytes) -> None:
        self.bytes[channel] += piece
