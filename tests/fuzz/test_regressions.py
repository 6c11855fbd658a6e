"""Past findings of the fuzzer, each as its smallest input, stay fixed."""

from random import Random

import pytest

from edged.errors import ManifestError
from edged.static_pods.manifest import static_pod
from modules.cloud.cloudhub.certificates import join_tokens
from modules.cloud.cloudhub.certificates.authority import Authority
from modules.cloud.cloudhub.certificates.errors import RequestRefusedError, TokenError
from tests.fuzz.campaign import attempt
from tests.fuzz.targets import TARGETS
from tests.modules.cloud.cloudhub.certificates.made import NOW, csr

_DEEP = b'{"a":' * 1500
_POD = b"kind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: a, image: a}]}\n"

FOUND = {
    "a status of digits that are none": ("upgrade", b"HTTP/1.1 20\xb9 x\r\n\r\n"),
    "a control frame of no UTF-8": ("control", b'\x00\x00\x00\x10{"verb": "\xf3", "b'),
    "a control frame without end": ("control", (7500).to_bytes(4, "big") + _DEEP),
    "the end of a command in no UTF-8": ("channel", b'{"":"","reason":"\xff"'),
    "the end of a command without end": ("channel", _DEEP),
    "an exit code of no number": ("channel", '{"reason":"NonZeroExitCode","details":{"causes":[{"reason":"ExitCode",'
                                             '"message":"١"}]}}'.encode()),
    "an exit code longer than Python reads": ("channel", b'{"reason":"NonZeroExitCode","details":{"causes":[{"reason":'
                                              b'"ExitCode","message":"' + b"9" * 5000 + b'"}]}}'),
    "a capture's line of no UTF-8": ("trace", b'{"ts":1}\n{"ts":2,"\xee":2}\n'),
    "a capture's line without end": ("trace", b'{"ts":1}\n{"ts":2,"a":' + _DEEP + b"\n"),
    "a date that is none in YAML": ("manifest", b"a: 2026-1-0T1:54:50"),
    "a tag that does not fit in YAML": ("manifest", b"a: !!timestamp"),
    "a manifest without end": ("manifest", b"a: " + b"[" * 3000),
    "a token of the node without end": ("join", b"plain\n{}\n" + b'{"a":' * 600 + b"\nx"),
    "a token of the cloud without end": ("token", b"plain\n" + b'{"a":' * 600 + b"\n{}\nx"),
    "a page in the place of Docker's answer": ("answers of Docker", b"\x800" * 3000),
    "a time in a log of Docker's that is none": ("logs of Docker", b"\1\0\0\0\0\0\0%2026-11-\xff\xffT01:54:50"
                                                   b".123456789Z hellox"),
    "a line of Docker's without end": ("answers of Docker", b"HTTP/1.1 200 OK\r\nContent-Length: 7501\r\n\r\n"
                                         + _DEEP + b"\n"),
}  # fmt: skip


@pytest.mark.parametrize("what", FOUND)
def test_found_defects_stay_repaired(what: str) -> None:
    """With eight seeds of the check's randomness."""
    name, data = FOUND[what]
    for seed in range(8):
        assert attempt(TARGETS[name], data, Random(seed)) is None


@pytest.mark.parametrize(
    "text",
    [
        b"kind: Pod\nmetadata: [a]\nspec: {containers: [{name: a}]}",
        b"kind: Pod\nmetadata: {name: a, annotations: 3}\nspec: {containers: [{name: a}]}",
        b"kind: Pod\nmetadata: {name: a}\nspec: {containers: 5}",
        b"kind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: a}], volumes: 5}",
        b"kind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: a}], tolerations: x}",
        _POD + b"status: &s {a: *s}",
        _POD + b"a: &a [x,x,x,x,x,x,x,x]\n"
        + b"".join(b"%c: &%c [%s]\n" % (at, at, b", ".join([b"*%c" % (at - 1)] * 8)) for at in range(98, 112)),
    ],
    ids=["metadata", "annotations", "containers", "volumes", "tolerations", "endless", "billion laughs"],
)  # fmt: skip
def test_a_manifest_of_the_wrong_shape_is_refused(text: bytes) -> None:
    """With an error text, and before it exhausts the node's memory."""
    with pytest.raises(ManifestError):
        static_pod(text, "/etc/pod.yaml", "edge-1")


def test_a_request_of_another_version_is_refused() -> None:
    """PKCS #10 has only the first; its parser has an error of its own for others."""
    request = bytearray(csr("edge-1"))
    version = request.index(b"\x02\x01\x00")
    request[version + 2] = 64
    with pytest.raises(RequestRefusedError):
        Authority.create(NOW).sign_node(bytes(request), "edge-1", NOW, 3600.0)


def test_a_token_has_one_spelling() -> None:
    """Letters outside of base64 are refused; when they were skipped, one token had many spellings."""
    token = join_tokens.issue(b"authority", b"key", join_tokens.Claims(2e9)).partition(".")[2]
    join_tokens.check(token, b"key", 1e9)
    for changed in (token[:-3] + "?" + token[-3:], token + "=", token[:-3] + " " + token[-3:]):
        with pytest.raises(TokenError):
            join_tokens.check(changed, b"key", 1e9)
