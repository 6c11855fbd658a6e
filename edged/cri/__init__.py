"""Container runtimes: edged's contract for them, and the gRPC client.

`ContainerRuntime` is the contract, `CriClient` implements it over a socket, `CriError` is the root of its errors.
"""

from edged.cri.client import DEFAULT_REQUEST_TIMEOUT, CriClient
from edged.cri.contract import ContainerId, ContainerRuntime, ExecResult, ImageRef, SandboxId, StreamingUrl, Streams
from edged.cri.endpoint import EndpointError, socket_path
from edged.cri.errors import (
    AlreadyExistsError,
    ConnectionClosedError,
    CriError,
    DeadlineExceededError,
    ExhaustedError,
    InvalidRequestError,
    NotFoundError,
    RefusedError,
    UnavailableError,
    UnimplementedError,
)
