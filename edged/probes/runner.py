"""Asks a container once: through the container runtime, or over the network. Blocks; for the crew's actors."""

import logging
from typing import NamedTuple, Protocol

from edged.cri.contract import ContainerId, ContainerRuntime
from edged.cri.errors import CriError, DeadlineExceededError
from edged.probes.errors import NetworkError
from edged.probes.model import Answer, Outcome
from edged.probes.network import Network
from edged.probes.targets import ExecTarget, GrpcTarget, HttpTarget, Target, TcpTarget

_log = logging.getLogger(__name__)

_TRIES = 3
"""How often it is tried at once when it cannot be asked (kubelet's maxProbeRetries)."""


class Attempt(NamedTuple):
    """One question. `seconds` is the limit for the answer."""

    container: ContainerId
    target: Target
    seconds: int


class ProbeRunner(Protocol):
    """Asks a container once."""

    def run(self, attempt: Attempt) -> Answer:
        """What came of it; never raises, and takes the attempt's seconds at most, or those of a call to the runtime."""


class ContainerProbeRunner:
    """`ProbeRunner` for real containers."""

    def __init__(self, runtime: ContainerRuntime, network: Network) -> None:
        self._runtime = runtime
        self._network = network

    def run(self, attempt: Attempt) -> Answer:
        """See the contract. A bug here must not look like a failure of the container, nor end edged."""
        try:
            return self._ask(attempt)
        except NetworkError as error:
            return Answer(Outcome.FAILURE, str(error))
        except Exception as error:  # noqa: BLE001 - see above
            _log.exception("a probe of container %s failed in a way nobody foresaw", attempt.container)
            return Answer(Outcome.UNKNOWN, type(error).__name__)

    def _ask(self, attempt: Attempt) -> Answer:
        match attempt.target:
            case ExecTarget(command):
                return self._execute(attempt, command)
            case HttpTarget() as target:
                return judge_status(self._network.http_get(target, attempt.seconds))
            case TcpTarget() as target:
                self._network.tcp_connect(target, attempt.seconds)
                return Answer(Outcome.SUCCESS)
            case GrpcTarget() as target:
                serves = self._network.grpc_serves(target, attempt.seconds)
                return Answer(Outcome.SUCCESS) if serves else Answer(Outcome.FAILURE, "it says that it does not serve")

    def _execute(self, attempt: Attempt, command: tuple[str, ...]) -> Answer:
        trouble = ""
        for _ in range(_TRIES):
            try:
                result = self._runtime.exec_sync(attempt.container, command, attempt.seconds)
            except DeadlineExceededError:
                return Answer(Outcome.FAILURE, f"the command took longer than {attempt.seconds} s")
            except CriError as error:
                trouble = f"{error.operation}: {error.code.name}"
                if not error.retryable:
                    break
            else:
                return judge_exit(result.exit_code)
        return Answer(Outcome.UNKNOWN, trouble)


def judge_exit(code: int) -> Answer:
    """A command that ends with 0 says yes."""
    return Answer(Outcome.SUCCESS) if code == 0 else Answer(Outcome.FAILURE, f"exit code {code}")


def judge_status(status: int) -> Answer:
    """200 to 399 say yes: a redirect that is not followed too (kubelet counts it as a warning)."""
    return Answer(Outcome.SUCCESS if 200 <= status < 400 else Outcome.FAILURE, f"HTTP status {status}")
