"""One repository of a registry: its manifests and blobs, from mirrors or from the registry itself."""

import ssl
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from http.client import HTTPException, HTTPResponse
from typing import Final, TypeVar

from beehive.nesting import read_json
from modules.runtimes.oci.images.worker.authorization import Authorization, RegistryCredentials
from modules.runtimes.oci.images.worker.blob_file import BlobFile
from modules.runtimes.oci.images.worker.digests import is_digest, matches, sha256_of
from modules.runtimes.oci.images.worker.documents import INDEXES, MANIFESTS, Descriptor
from modules.runtimes.oci.images.worker.errors import DENIED, NOT_FOUND, UNAVAILABLE, ImageWorkError, invalid
from modules.runtimes.oci.images.worker.hosts import RegistryHost
from modules.runtimes.oci.images.worker.http_exchange import HttpExchange, PieceCount, read_bounded, unreachable
from modules.runtimes.oci.images.worker.limits import LONGEST_MANIFEST, MIB
from modules.runtimes.oci.images.worker.retries import RETRIED, RetryPolicy

_T = TypeVar("_T")

_ACCEPT: Final = ", ".join((*INDEXES, *MANIFESTS, "*/*;q=0.1"))
_LONGEST_ERROR: Final = 64 * 1024
_SHOWN: Final = 200
_CHUNK: Final = 256 * 1024


class _RefusedAnswerError(Exception):
    """An answer with a status that is an error."""

    def __init__(self, error: ImageWorkError, status: int, retry_after: str) -> None:
        super().__init__(str(error))
        self.error = error
        self.status = status
        self.retry_after = retry_after


class _Server:
    """One endpoint with its authorization."""

    def __init__(
        self, endpoint: RegistryHost, registry: str, path: str, credentials: RegistryCredentials, waiting: RetryPolicy
    ) -> None:
        self.endpoint = endpoint
        self._base = f"{endpoint.address.scheme}://{endpoint.address.name}{endpoint.prefix}/{path}"
        self._query = "" if endpoint.is_registry else f"?ns={registry}"
        self._exchange = HttpExchange(endpoint, waiting.stall_seconds, waiting.now)
        self._authorization = Authorization(endpoint, self._exchange, credentials, path, waiting.now)

    @contextmanager
    def get(
        self, what: str, headers: dict[str, str], wanted: Sequence[int], method: str = "GET"
    ) -> Iterator[HTTPResponse]:
        """Yield the answer for a path below the repository. Raises _RefusedAnswerError, and as `HttpExchange.get`."""
        url = f"{self._base}/{what}{self._query}"
        for is_again in (False, False, True):
            sent = self._authorization.header()
            with self._exchange.get(url, headers, authorization=sent, method=method) as response:
                if response.status in wanted:
                    yield response
                    return
                challenge = ", ".join(response.headers.get_all("WWW-Authenticate") or ())
                if response.status != 401 or is_again or not challenge:
                    raise _refused(response, self.endpoint)
            if not self._authorization.answer(challenge, sent):
                break
        hint = "see the pull secret" if sent else "none were given: add a pull secret to the pod"
        raise _RefusedAnswerError(
            ImageWorkError(DENIED, f"{self.endpoint.address.name} wants credentials", hint), 401, ""
        )


class Repository:
    """A repository, read-only. Thread-safe.

    Args:
        registry: name of the registry.
        path: of the repository.
        endpoints: servers, in the order of the requests; the last one is asked again after failures.
        credentials: of the registry.
        waiting: how often and how long.
    """

    def __init__(
        self,
        registry: str,
        path: str,
        endpoints: Sequence[RegistryHost],
        credentials: RegistryCredentials,
        waiting: RetryPolicy,
    ) -> None:
        self.name = registry
        self._servers = [_Server(each, registry, path, credentials, waiting) for each in endpoints]
        self._waiting = waiting

    def digest_of(self, tag: str) -> str:
        """Return the digest that a server has for a tag, "" if none answers. Docker Hub does not count this request as
        a pull.
        """
        for server in self._servers:
            with suppress(_RefusedAnswerError, ImageWorkError, OSError, HTTPException):
                if server.endpoint.resolves:
                    with server.get(f"manifests/{tag}", {"Accept": _ACCEPT}, (200,), "HEAD") as response:
                        return response.getheader("Docker-Content-Digest") or ""
        return ""

    def manifest(self, reference: str) -> tuple[bytes, str, str]:
        """Return manifest or index of a tag or digest: content, media type as announced, digest.

        Raises ImageWorkError.
        """
        by_digest = is_digest(reference)
        servers = [each for each in self._servers if by_digest or each.endpoint.resolves]
        return self._from_any(servers, lambda server: self._manifest(server, reference), lambda: 0)

    def document(self, descriptor: Descriptor) -> bytes:
        """Return a small blob. Raises ImageWorkError."""
        if descriptor.size > LONGEST_MANIFEST:
            raise invalid(f"the image's config has more than {LONGEST_MANIFEST} bytes")

        def fetch(server: _Server) -> bytes:
            with server.get(f"blobs/{descriptor.digest}", {}, (200,)) as response:
                content = read_bounded(response, descriptor.size)
            if not matches(descriptor.digest, content):
                raise invalid(f"{server.endpoint.address.name} has another content for {descriptor.digest}")
            return content

        return self._from_any(self._servers, fetch, lambda: 0)

    def fetch(self, descriptor: Descriptor, blob: BlobFile, fetched: Callable[[int], None]) -> None:
        """Fetch a blob, or the rest of it.

        Args:
            descriptor: of the blob.
            blob: its file, with the content of earlier attempts.
            fetched: told the bytes of each piece; negative when pieces are thrown away.

        Raises:
            ImageWorkError: no server has it, or none has the right content.
        """
        self._from_any(self._servers, lambda server: self._fetch(server, descriptor, blob, fetched), blob.position)

    def _manifest(self, server: _Server, reference: str) -> tuple[bytes, str, str]:
        with server.get(f"manifests/{reference}", {"Accept": _ACCEPT}, (200,)) as response:
            content = read_bounded(response, LONGEST_MANIFEST)
            kind = (response.getheader("Content-Type") or "").partition(";")[0].strip()
            announced = response.getheader("Docker-Content-Digest") or ""
        digest = reference if is_digest(reference) else sha256_of(content)
        if not matches(digest, content):
            raise invalid(f"{server.endpoint.address.name} has another content for {reference}")
        if is_digest(announced) and not matches(announced, content):
            raise invalid(f"{server.endpoint.address.name} announces another digest than that of its answer")
        return content, kind, digest

    def _fetch(self, server: _Server, descriptor: Descriptor, blob: BlobFile, fetched: Callable[[int], None]) -> None:
        began = blob.position()
        if began < descriptor.size:
            headers = {"Range": f"bytes={began}-"} if began else {}
            with server.get(f"blobs/{descriptor.digest}", headers, (200, 206, 416)) as response:
                if began and not _continues(response, began):
                    fetched(-blob.restart())
                    began = 0
                    if response.status != 200:
                        raise OSError("the server sends another range than was asked for")
                self._stream(response, descriptor, blob, fetched)
        if blob.position() < descriptor.size:
            raise OSError("the connection ended before the blob")
        if not blob.is_right():
            fetched(-blob.restart())
            if began:  # bytes of an earlier attempt, or of another server, may be wrong
                raise OSError("the blob was damaged")
            raise invalid(f"{server.endpoint.address.name} has another content for {descriptor.digest}")

    def _stream(
        self, response: HTTPResponse, descriptor: Descriptor, blob: BlobFile, fetched: Callable[[int], None]
    ) -> None:
        pieces = PieceCount()
        while chunk := response.read1(_CHUNK):
            pieces.add(len(chunk))
            if blob.position() + len(chunk) > descriptor.size:
                fetched(-blob.restart())
                raise invalid(f"the registry sends more than the {descriptor.size} bytes of {descriptor.digest}")
            blob.write(chunk)
            fetched(len(chunk))

    def _from_any(self, servers: Sequence[_Server], action: Callable[[_Server], _T], position: Callable[[], int]) -> _T:
        """Return the result of the first server where the action succeeds; the last server gets several attempts."""
        failure = ImageWorkError(UNAVAILABLE, "no server may be asked", "see the hosts.toml of the registry")
        for server in servers:
            attempts = self._waiting.attempts if server is servers[-1] else 1
            try:
                return self._tried(server, attempts, action, position)
            except ImageWorkError as error:
                failure = error
        raise failure

    def _tried(
        self, server: _Server, attempts: int, action: Callable[[_Server], _T], position: Callable[[], int]
    ) -> _T:
        attempt, before = 1, position()
        while True:
            attempt += 1
            try:
                return action(server)
            except _RefusedAnswerError as error:
                failure, retry_after, passes = error.error, error.retry_after, error.status in RETRIED
            except (OSError, HTTPException) as error:
                failure, retry_after = unreachable(server.endpoint.address, error), ""
                passes = not isinstance(error, ssl.SSLCertVerificationError)
            if position() >= before + MIB:
                attempt, before = 2, position()
            delay = self._waiting.delay(attempt, retry_after)
            if not passes or attempt > attempts or delay is None:
                raise failure
            self._waiting.sleep(delay)


def _continues(response: HTTPResponse, at: int) -> bool:
    """Return whether an answer is the rest of a blob from `at` on."""
    return response.status == 206 and (response.getheader("Content-Range") or "").startswith(f"bytes {at}-")


def _refused(response: HTTPResponse, endpoint: RegistryHost) -> _RefusedAnswerError:
    """Return the error of an answer, with the registry's message."""
    says = _message(response)
    name = endpoint.address.name
    if response.status == 404:
        error = ImageWorkError(NOT_FOUND, f"{name} does not have it{says}", "see the name of the image")
    elif response.status in (401, 403):
        error = ImageWorkError(DENIED, f"{name} refuses{says}", "see the pull secret")
    else:
        error = ImageWorkError(UNAVAILABLE, f"{name} answers {response.status}{says}")
    return _RefusedAnswerError(error, response.status, response.getheader("Retry-After") or "")


def _message(response: HTTPResponse) -> str:
    try:
        first = read_json(response.read(_LONGEST_ERROR))["errors"][0]
        text = f"{first['code']}: {first.get('message', '')}"
    except (OSError, HTTPException, ValueError, LookupError, TypeError, AttributeError):
        return ""
    return f" ({''.join(each if each.isprintable() else ' ' for each in text[:_SHOWN])})"
