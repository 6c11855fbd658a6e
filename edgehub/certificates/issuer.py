"""Starts the short process that fetches a certificate, and waits for it; on the thread of whoever asks.

The order goes through a pipe, so that the token is in no command line. The process is killed when it takes too long,
and when it is no longer wanted.
"""

import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from edgehub.certificates.errors import IssuerError
from edgehub.certificates.order import Order, Outcome
from edgehub.certificates.settings import CertificateSettings

if TYPE_CHECKING:
    import subprocess

PATIENCE: Final = 60.0
"""Seconds that one certificate may take: two connections with three steps of ten seconds each."""

COMMAND: Final = (sys.executable, "-m", "edgehub.certificates.issue")


class Issue(Protocol):
    """Gets certificates into their files; `Issuer` is the real one."""

    def obtain(self, settings: CertificateSettings, *, renew: bool, wanted: Callable[[], bool]) -> None:
        """Get one, unless it is not wanted any more. Blocks; raises CertificateError."""

    def cancel(self) -> None:
        """End what is running. Any thread; returns at once."""


class Issuer:
    """See the module's docstring.

    Args:
        patience: seconds for one certificate.
    """

    def __init__(self, patience: float = PATIENCE) -> None:
        self._patience = patience
        self._one_at_a_time = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def obtain(self, settings: CertificateSettings, *, renew: bool, wanted: Callable[[], bool]) -> None:
        """Get a certificate into its files.

        Args:
            settings: of the certificate.
            renew: whether with the one that is there.
            wanted: asked again once it has begun, so that no `cancel` is missed.

        Raises:
            CertificateError: why there is none.
        """
        with self._one_at_a_time:
            output = self._run(msgspec.json.encode(Order(settings, renew)), wanted)
        try:
            failure = msgspec.json.decode(output, type=Outcome).failure
        except msgspec.MsgspecError as error:
            raise IssuerError("the process that fetches certificates gave no answer", hint=str(error)) from error
        if failure is not None:
            raise failure.error()

    def cancel(self) -> None:
        """Kill the process that is running, if any. Any thread."""
        process = self._process
        if process is not None:
            process.kill()

    def _run(self, order: bytes, wanted: Callable[[], bool]) -> bytes:
        import subprocess  # noqa: PLC0415 - 0.7 MB, for a node that needs a certificate

        pipe = subprocess.PIPE
        try:
            process = subprocess.Popen(COMMAND, stdin=pipe, stdout=pipe, stderr=pipe)
        except OSError as error:
            raise IssuerError("cannot start the process that fetches certificates", COMMAND[0], str(error)) from error
        with process:
            self._process = process
            try:
                if not wanted():
                    process.kill()
                output, complaint = process.communicate(order, self._patience)
            except subprocess.TimeoutExpired:
                process.kill()
                raise IssuerError(
                    "no certificate in time", f"{self._patience:g} s", "the cloud's server is slow or silent"
                ) from None
            finally:
                self._process = None
        if process.returncode:
            last = complaint.decode("utf-8", "replace").strip().rpartition("\n")[2][:200]
            raise IssuerError(
                "the process that fetches certificates failed", f"status {process.returncode}", last or "it was killed"
            )
        return output
