"""No secret gets into a trace, whatever form it takes, and a redacted body still reads as what it was."""

import base64
import html
import json
import re
import string
from base64 import urlsafe_b64encode
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, quote_plus

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beehive.trace import secrets
from beehive.trace.redact import Redactor
from beehive.trace.secret_marks import MARK, SecretMarks
from beehive.trace.secrets import CAPACITY, KnownSecrets

PASSWORD = "correct horse / battery"  # noqa: S105
POD = "default/pod/p"
SECRET = "default/secret/s"  # noqa: S105


def b64(text: str | bytes) -> str:
    """As Kubernetes writes a secret's data."""
    return base64.b64encode(text.encode() if isinstance(text, str) else text).decode()


def secret(**data: str) -> dict[str, Any]:
    """A secret with that data, as kubectl leaves it."""
    plain = {"apiVersion": "v1", "kind": "Secret", "data": {key: b64(value) for key, value in data.items()}}
    annotation = {"kubectl.kubernetes.io/last-applied-configuration": msgspec.json.encode(plain).decode()}
    return plain | {"metadata": {"name": "s", "namespace": "default", "annotations": annotation}, "type": "Opaque"}


def redacted(redactor: Redactor, value: Any, resource: str = SECRET) -> Any:
    """The value as a trace has it, decoded."""
    return msgspec.json.decode(redactor.content(resource, "update", msgspec.json.encode(value)))


@pytest.fixture
def redactor() -> Redactor:
    """One with a key of its own."""
    return Redactor()


def test_values_of_a_secret_become_hashes_that_are_base64_still(redactor: Redactor) -> None:
    seen = redacted(redactor, secret(password=PASSWORD, empty=""))
    assert base64.b64decode(seen["data"]["password"]).decode() == redactor.mark(PASSWORD.encode())
    assert (seen["data"]["empty"], seen["metadata"]["name"], seen["type"]) == ("", "s", "Opaque")


@pytest.mark.parametrize("resource", [SECRET, POD])
@pytest.mark.parametrize(("begin", "end"), [(b"[", b"]"), (b'{"a":', b"}")])
def test_a_frame_that_is_nested_too_deeply_is_replaced_whole(
    redactor: Redactor, resource: str, begin: bytes, end: bytes
) -> None:
    """It can be decoded, but not gone through: that must not end who takes it from the link."""
    nested = begin * 495 + msgspec.json.encode(PASSWORD) + end * 495
    route = b'{"header":{"msg_id":"m"},"route":{"operation":"update","resource":"%b"}' % resource.encode()
    seen = redactor.frame(route + b',"content":{"kind":"Secret","data":%b}}' % nested)
    assert PASSWORD.encode() not in seen
    assert MARK.encode() in seen


def test_the_hash_keeps_equality_and_depends_on_the_process() -> None:
    one, other = Redactor(), Redactor()
    assert one.mark(b"a") == one.mark(b"a") != one.mark(b"b")
    assert one.mark(b"a") != other.mark(b"a")
    assert one.mark(b"a").startswith(MARK)
    assert len(one.mark(b"a")) == len(MARK) + 16


_FORMS: dict[str, Callable[[Any], Any]] = {
    "an object": lambda value: value,
    "its text": lambda value: msgspec.json.encode(value).decode(),
    "a Go []byte": lambda value: b64(msgspec.json.encode(value)),
    "a list": lambda value: [value, value],
    "a list of texts, as the store answers": lambda value: [msgspec.json.encode(value).decode()],
    "a Kubernetes list": lambda value: {"kind": "SecretList", "items": [value]},
}


@pytest.mark.parametrize("form", _FORMS)
@pytest.mark.parametrize("resource", [SECRET, "node/edge-1/default/secret/s", POD])
def test_a_secret_is_found_in_every_form_and_under_every_name(redactor: Redactor, form: str, resource: str) -> None:
    text = msgspec.json.encode(redacted(redactor, _FORMS[form](secret(password=PASSWORD)), resource)).decode()
    unwrapped = base64.b64decode(text.strip('"')).decode() if form == "a Go []byte" else text
    for where in (text, unwrapped):
        assert PASSWORD not in where
        assert b64(PASSWORD) not in where


@pytest.mark.parametrize("resource", ["default/serviceaccounttoken/default", POD])
def test_tokens_are_redacted_wherever_they_stand(redactor: Redactor, resource: str) -> None:
    request = {"spec": {"audiences": ["a"]}, "status": {"token": "header.claims.signature", "expirationTimestamp": "x"}}
    seen = redacted(redactor, request, resource)
    assert seen["status"]["token"] == redactor.mark(b"header.claims.signature")
    assert (seen["spec"], seen["status"]["expirationTimestamp"]) == ({"audiences": ["a"]}, "x")


def test_pull_credentials_keep_their_form_and_user(redactor: Redactor) -> None:
    auth = {"username": "robot", "password": PASSWORD, "auth": b64(f"robot:{PASSWORD}")}
    config = msgspec.json.encode({"auths": {"registry.example": auth}}).decode()
    seen = redacted(redactor, secret(**{".dockerconfigjson": config}))
    kept = msgspec.json.decode(base64.b64decode(seen["data"][".dockerconfigjson"]))["auths"]["registry.example"]
    mark = redactor.mark(PASSWORD.encode())
    assert kept == {"username": "robot", "password": mark, "auth": b64(f"robot:{mark}")}
    assert redactor.credentials(auth) == kept


@pytest.mark.parametrize(
    ("key", "field", "body"),
    [
        ("/core/v1/secrets/default/null", "ReqBody", secret(password=PASSWORD)),
        ("/core/v1/secrets/default/s", "RespBody", {"data": {"password": b64(PASSWORD)}}),
        ("/core/v1/secrets/default/s", "Option", {"Data": b64(msgspec.json.encode({"stringData": {"p": PASSWORD}}))}),
        ("/core/v1/serviceaccounts/default/a", "RespBody", {"status": {"token": PASSWORD}}),
        ("/apps/v1/things/default/a", "RespBody", secret(password=PASSWORD)),
    ],
)
def test_what_goes_through_the_metaserver_is_redacted_in_its_base64(
    redactor: Redactor, key: str, field: str, body: Any
) -> None:
    """An Application of KubeEdge's, whatever it asks for."""
    app = {"Key": key, "Verb": "patch", "ReqBody": None, field: b64(msgspec.json.encode(body))}
    shown = redacted(redactor, app, "ignore/Application/ignore")
    assert shown["Key"] == key
    assert shown[field] != app[field]
    assert PASSWORD not in b64decoded(shown[field])
    assert b64(PASSWORD) not in b64decoded(shown[field])


def b64decoded(text: str) -> str:
    """Decode base64 as often as possible; marks stay."""
    try:
        plain = base64.b64decode(text, validate=True).decode()
    except ValueError:
        return text
    return plain + "".join(b64decoded(each) for each in plain.split('"') if len(each) > 20)


def test_a_known_value_is_found_inside_of_other_texts(redactor: Redactor) -> None:
    redactor.known.learn(PASSWORD.encode())
    mark = redactor.mark(PASSWORD.encode())
    whole = {"args": [f"--url=db://u:{PASSWORD}@host"], "env": {"A": PASSWORD}, PASSWORD: [1.5, None]}
    hidden = {"args": [f"--url=db://u:{mark}@host"], "env": {"A": mark}, mark: [1.5, None]}
    assert redacted(redactor, whole, POD) == hidden
    assert redactor.text(f"exit: bad password {PASSWORD}") == f"exit: bad password {mark}"


def test_text_without_a_secret_stays_the_same_to_the_byte(redactor: Redactor) -> None:
    redactor.known.learn(PASSWORD.encode())
    text = b'{ "a" : [1, 2.50, "automountServiceAccountToken"], "automountServiceAccountToken": true }'
    assert redactor.content(POD, "insert", text) is text
    assert redactor.content(SECRET, "response", b'"OK"') == b'"OK"'


def test_the_text_of_an_error_about_a_secret_stays_readable(redactor: Redactor) -> None:
    redactor.known.learn(PASSWORD.encode())
    text = msgspec.json.encode(f'secrets "s" not found, tried {PASSWORD}')
    seen = msgspec.json.decode(redactor.content(SECRET, "error", text))
    assert seen == f'secrets "s" not found, tried {redactor.mark(PASSWORD.encode())}'


def test_short_values_are_hidden_as_variables_but_not_looked_for(redactor: Redactor) -> None:
    redacted(redactor, secret(debug="true"))
    assert redactor.value("true") == redactor.mark(b"true")
    assert redacted(redactor, {"a": "it is true"}, POD) == {"a": "it is true"}


def test_a_frame_is_redacted_by_its_resource(redactor: Redactor) -> None:
    frame = {"header": {"msg_id": "1"}, "route": {"operation": "insert", "resource": SECRET}}
    seen = redactor.frame(msgspec.json.encode(frame | {"content": secret(password=PASSWORD)}))
    assert PASSWORD.encode() not in seen
    assert b64(PASSWORD).encode() not in seen
    assert msgspec.json.decode(seen)["header"] == {"msg_id": "1"}


def test_invalid_json_under_a_secrets_name_is_hidden_whole(redactor: Redactor) -> None:
    assert msgspec.json.decode(redactor.secret(PASSWORD.encode())).startswith(MARK)
    assert msgspec.json.decode(redactor.frame(PASSWORD.encode())).startswith(MARK)


def test_redacting_twice_changes_nothing_more(redactor: Redactor) -> None:
    once = redacted(redactor, secret(password=PASSWORD))
    assert redacted(redactor, once) == once


@given(
    st.text(string.printable + "äß€😀\u2028", min_size=6, max_size=40).filter(lambda text: len(text.strip()) >= 6),
    st.text(max_size=10),
    st.booleans(),
)
def test_no_form_of_a_learnt_value_gets_through(value: str, around: str, escaped: bool) -> None:
    """Plain, escaped by any JSON encoder, or base64; whatever stands around it."""
    redactor = Redactor()
    redacted(redactor, secret(password=value))
    whole = {"a": f"{around}{value}{around}", "b": b64(value)}
    text = msgspec.json.encode(whole)
    if escaped:
        text = b"{" + b",".join(f'"{key}":"{_all_escaped(item)}"'.encode() for key, item in whole.items()) + b"}"
    seen = msgspec.json.decode(redactor.content(POD, "insert", text))
    assert value not in seen["a"]
    assert seen["b"] != b64(value)


def _all_escaped(text: str) -> str:
    """Every sign as JSON's escapes of its UTF-16 units."""
    units = text.encode("utf-16-be")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


_ENCODED: dict[str, Callable[[str], str]] = {
    "base64 of user and password": lambda value: b64(f"user:{value}"),
    "base64 of a URL with it": lambda value: b64(f"db://a:{value}@host"),
    "base64 of a line with it": lambda value: b64(f"{value}\n"),
    "URL-safe base64 of a text with it": lambda value: urlsafe_b64encode(f"~~?>{value}>?~".encode()).decode(),
    "hexadecimal": lambda value: value.encode().hex(),
    "hexadecimal in capitals": lambda value: value.encode().hex().upper(),
    "a URL": quote,
    "a URL in small letters": lambda value: re.sub("%..", lambda found: found[0].lower(), quote(value, safe="")),
    "a form": quote_plus,
    "HTML": html.escape,
    "HTML without quotes": lambda value: html.escape(value, quote=False),
    "HTML by Go": lambda value: html.escape(value, quote=False).replace('"', "&#34;").replace("'", "&#39;"),
    "JSON": lambda value: msgspec.json.encode(value).decode(),
    "JSON in ASCII": json.dumps,
    "JSON by Go": lambda value: re.sub("[<>&]", lambda found: f"\\u{ord(found[0]):04x}", json.dumps(value)),
    "Python's quotes": repr,
}


@pytest.mark.parametrize("form", _ENCODED)
@pytest.mark.parametrize("value", ["hunter", "pa<ss>&w'or\"d/+ ~?", "Grüße aus \\Köln\n€😀"])
def test_an_encoded_value_is_found_in_the_text_of_an_error(redactor: Redactor, form: str, value: str) -> None:
    """Programs often encode a value again in errors and logs. No 6 bytes of it are left."""
    redactor.known.learn(value.encode())
    text = _ENCODED[form](value)
    seen = redactor.text(f"cannot log in: {text} was refused")
    assert seen.startswith("cannot log in: ")
    assert seen.endswith(" was refused")
    assert redactor.mark(value.encode()) in seen
    left = seen.removeprefix("cannot log in: ").removesuffix(" was refused").replace(redactor.mark(value.encode()), " ")
    around = "user:db://a:@host~~?>" if "base64" in form else ""
    assert len(left) <= 4 + len(b64(around))


def test_the_first_value_is_known_after_thousands_of_others(redactor: Redactor) -> None:
    """None is forgotten while there is room, in any form; a search does not compare with each."""
    redactor.known.learn(PASSWORD.encode())
    for number in range(CAPACITY - 1):
        redactor.known.learn(b"another password: %d" % number)
    assert len(redactor.known) == CAPACITY
    for form in (PASSWORD, b64(PASSWORD), b64(PASSWORD).rstrip("="), quote(PASSWORD, safe=""), quote_plus(PASSWORD)):
        assert redactor.text(f"with {form} in it") == f"with {redactor.mark(PASSWORD.encode())} in it"
    assert redactor.text("without") == "without"


@pytest.fixture
def room(monkeypatch: pytest.MonkeyPatch) -> int:
    """How many values there is room for, few in these tests."""
    monkeypatch.setattr(secrets, "CAPACITY", 50)
    return 50


def test_when_there_is_no_room_contents_are_left_out(
    redactor: Redactor, room: int, caplog: pytest.LogCaptureFixture
) -> None:
    """A value that could not be learnt may stand anywhere, so nothing is let through; that is logged once."""
    for number in range(room + 2):
        redactor.known.learn(b"password: %d" % number)
    unknown = f"password: {room + 1}"
    assert redactor.known.is_full
    assert len(redactor.known) == room
    frame = {"header": {"msg_id": "1"}, "route": {"resource": POD, "operation": "insert"}, "content": {"a": unknown}}
    seen = msgspec.json.decode(redactor.frame(msgspec.json.encode(frame)))
    assert seen["route"] == frame["route"]
    assert seen["content"].startswith(MARK)
    for text in (redactor.text(unknown), redactor.value(unknown)):
        assert text.startswith(MARK)
    for content in (redactor.json(b'{"a":"b"}'), redactor.content(SECRET, "insert", b"{}"), redactor.secret(b"{}")):
        assert msgspec.json.decode(content).startswith(MARK)
    assert len(caplog.records) == 1
    assert "leave out all contents" in caplog.text


def test_many_large_values_are_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """By their bytes."""
    monkeypatch.setattr(secrets, "BYTES", 3 * 60_000)
    known = KnownSecrets()
    for number in range(3):
        known.learn(b"%06d" % number * 10_000)
    assert not known.is_full
    known.learn(b"another")
    assert known.is_full


def test_many_short_values_are_bounded_too(room: int) -> None:
    """They are not looked for, but their places are known by them."""
    known = KnownSecrets()
    for number in range(room + 1):
        known.learn(b"%04x!" % number)
    assert known.is_full


def test_tokens_that_have_expired_make_room(room: int) -> None:
    """They are of no use to anybody, and a node gets thousands of them in a week; others are kept."""
    now = [1_000_000.0]
    known = KnownSecrets(lambda: now[0])
    redactor = Redactor(known)
    known.learn(PASSWORD.encode())
    old = [_token(number, now[0] + 3600) for number in range(room - 1)]
    for token in old:
        known.learn(token)
    now[0] += 3 * 3600
    new = _token(room, now[0] + 3600)
    known.learn(new)
    assert not known.is_full
    assert len(known) == 2
    assert redactor.text(f"{new.decode()} {PASSWORD}") == f"{redactor.mark(new)} {redactor.mark(PASSWORD.encode())}"


def _token(number: int, expires: float) -> bytes:
    claims = urlsafe_b64encode(msgspec.json.encode({"jti": number, "exp": expires})).rstrip(b"=")
    return b"eyJhbGciOiJSUzI1NiJ9." + claims + b".c2lnbmF0dXJl"


def test_a_text_that_takes_too_long_to_search_is_hidden_whole(redactor: Redactor) -> None:
    for size in range(300, 3000, 10):
        redactor.known.learn(b"a" * size + b"b")
    assert redactor.text("a" * 100_000) == redactor.mark(b"a" * 100_000)
    seen = msgspec.json.decode(redactor.json(msgspec.json.encode({"log": "a" * 100_000})))
    assert seen["log"].startswith(MARK)


def test_a_million_backslashes_are_read_once(redactor: Redactor) -> None:
    """Each run of them was read from each of its places, with the interpreter's lock held: for minutes."""
    text = b'{"a":"' + b"\\" * 1_000_000 + b'"}'
    assert redactor.json(text) == text


def test_a_large_text_is_gone_through_again_when_more_is_known(redactor: Redactor) -> None:
    """That it had nothing secret is remembered only as long as nothing is learnt."""
    text = msgspec.json.encode({"annotations": {"a": "x" * 100_000, "b": PASSWORD}})
    assert redactor.json(text) is text
    assert redactor.json(bytes(bytearray(text))) == text
    redactor.known.learn(PASSWORD.encode())
    assert msgspec.json.decode(redactor.json(text))["annotations"]["b"] == redactor.mark(PASSWORD.encode())
    route = {"resource": POD, "operation": "insert"}
    frame = msgspec.json.encode({"header": {"msg_id": "1"}, "route": route, "content": msgspec.Raw(text)})
    assert PASSWORD.encode() not in redactor.frame(frame)


def test_another_large_text_is_gone_through_after_a_clean_one(redactor: Redactor) -> None:
    redactor.known.learn(PASSWORD.encode())
    for value in ("nothing", PASSWORD):
        text = msgspec.json.encode({"annotations": {"a": "x" * 100_000, "b": value}})
        assert PASSWORD.encode() not in redactor.json(text)


def test_a_known_value_in_the_envelope_of_a_frame_is_found(redactor: Redactor) -> None:
    redactor.known.learn(PASSWORD.encode())
    route = {"resource": f"default/pod/{PASSWORD}", "operation": "insert"}
    frame = msgspec.json.encode({"header": {"msg_id": "1"}, "route": route, "content": {"a": "b"}})
    seen = msgspec.json.decode(redactor.frame(frame))
    assert seen["route"] == {"resource": f"default/pod/{redactor.mark(PASSWORD.encode())}", "operation": "insert"}
    assert seen["content"] == {"a": "b"}


@pytest.mark.parametrize("wrap", [str, b64], ids=["text", "base64"])
def test_json_in_a_text_that_holds_no_secret_keeps_its_bytes(redactor: Redactor, wrap: Callable[[str], str]) -> None:
    """A pod with kubectl's annotation is the same pod in a list, which is gone through, and alone, which is not.

    kubectl ends the annotation with a line break. A replay that loses it in one of the two takes the pod as changed.
    """
    pod = {"metadata": {"annotations": {"a": wrap('{"spec": {"x": 1.0} }\n'), "password": PASSWORD}}}
    seen = redacted(redactor, [msgspec.json.encode(pod).decode()], POD)
    annotations = msgspec.json.decode(seen[0])["metadata"]["annotations"]
    assert annotations["a"] == pod["metadata"]["annotations"]["a"]
    assert annotations["password"] == redactor.mark(PASSWORD.encode())


@pytest.mark.parametrize("wrap", [str, b64], ids=["text", "base64"])
def test_a_name_that_is_there_twice_hides_nothing(redactor: Redactor, wrap: Callable[[str], str]) -> None:
    """Decoding keeps the last value; the text of such an object is rewritten without the first."""
    text = wrap(f'{{"data": {{"a": "{PASSWORD}"}}, "kind": "Secret", "data": {{}}}}')
    pod = {"metadata": {"annotations": {"a": text, "password": "other"}}}
    (seen,) = redacted(redactor, [msgspec.json.encode(pod).decode()], POD)
    assert PASSWORD not in seen
    assert wrap(PASSWORD)[:-4] not in seen
    assert msgspec.json.decode(seen)["metadata"]["annotations"]["a"] == wrap('{"data":{},"kind":"Secret"}')


@pytest.mark.parametrize("resource", [SECRET, POD])
def test_a_name_that_is_there_twice_hides_nothing_in_a_content(redactor: Redactor, resource: str) -> None:
    """As in a text of a content: what decoding leaves out is not written either."""
    first = f'"kind": "Secret", "data": {{"a": "{b64(PASSWORD)}"}}, "token": "{PASSWORD}"'
    twice = f'{{{first}, "token": "", "data": {{}}}}'
    assert redactor.content(resource, "update", twice.encode()) == b'{"kind":"Secret","data":{},"token":""}'


def test_a_content_that_is_there_twice_hides_nothing_in_a_frame(redactor: Redactor) -> None:
    route = f'"route":{{"operation":"update","resource":"{SECRET}"}}'
    frame = f'{{{route},"content":{msgspec.json.encode(secret(a=PASSWORD)).decode()},"content":{{"a":"content"}}}}'
    seen = redactor.frame(frame.encode())
    assert b64(PASSWORD).encode() not in seen
    assert msgspec.json.decode(seen)["route"]["resource"] == SECRET


@pytest.mark.parametrize("name", ["Authorization", "Cookie", "Set-Cookie", "proxy-authorization"])
def test_credentials_in_headers_of_http_are_redacted(redactor: Redactor, name: str) -> None:
    """KubeEdge's router passes the caller's on, in the form of Go's http.Header."""
    seen = redacted(redactor, {"header": {"Accept": ["*/*"], name: [PASSWORD]}, "method": "GET"}, "node/n1/80:/")
    assert seen["header"] == {"Accept": ["*/*"], name: [redactor.mark(PASSWORD.encode())]}


@pytest.mark.parametrize("name", ["Authorization", "authorization", "Proxy-Authorization", "Cookie", "X-API-Key"])
def test_credentials_in_headers_of_probes_and_hooks_are_redacted(redactor: Redactor, name: str) -> None:
    """The bundle for strangers had the Authorization of a pod's probe."""
    pod = {"spec": {"containers": [{"livenessProbe": {"httpGet": {"httpHeaders": [
        {"name": "Accept", "value": "text/plain"}, {"name": name, "value": "Basic bWU6c2VjcmV0"},
    ]}}}]}}  # fmt: skip
    for content in (pod, {"last-applied": json.dumps(pod)}):
        text = redactor.content("default/pod/web", "update", json.dumps(content).encode())
        assert b"bWU6c2VjcmV0" not in text
        assert b"text/plain" in text
    assert "bWU6c2VjcmV0" not in redactor.text("GET /: 401 for Basic bWU6c2VjcmV0"), "it is known from then on"


def test_a_node_for_itself_keeps_the_values_that_a_replay_needs(redactor: Redactor) -> None:
    """Strangers get none, whatever the entries look like."""
    config_map = b'{"kind":"ConfigMap","data":{"a":"of-config"}}'
    assert redactor.json(config_map) == config_map
    stranger = Redactor(hides_values=True)
    forms: list[Any] = [None, 1, "odd-text", [], {}, [1, "odd-text", {"value": {"a": "odd-text"}}]]
    for odd in forms:
        for field in ("env", "envs", "httpHeaders", "annotations"):
            assert b"odd-text" not in stranger.json(json.dumps({"spec": {field: odd}}).encode())
    assert b"of-config" not in stranger.json(config_map)
    assert b"of-config" not in stranger.json(b'{"kind":"ConfigMapList","items":[' + config_map + b"]}")
    assert b"of-config" not in stranger.content("default/configmap/c", "update", b'[{"data":{"a":"of-config"}}]')
    kept = b'{"annotations":{"volumes.kubernetes.io/controller-managed-attach-detach":"true"}}'
    assert stranger.json(kept) == kept, "the node has set it, and a replay does"
    applied = (
        b'{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"applied","evil-k8s.io.example/a":"b"}}'
    )
    assert b'applied"' not in stranger.json(applied).replace(b'configuration":"', b"")
    assert b':"b"' not in stranger.json(applied)
    assert b':"b"' not in stranger.json(b'{"annotations":{"evilk8s.io/a":"b"}}')
    assert stranger.text("node edge-01 is ready") == "node edge-01 is ready"
    stranger.json(b'{"env":[{"name":"NODE","value":"edge-01"}]}')
    assert stranger.text("node edge-01 is ready") == "node edge-01 is ready", "a value of a variable may be any word"


def test_a_value_that_is_secret_by_its_place_is_secret_in_each_text() -> None:
    known = KnownSecrets()
    marks = SecretMarks(known, b"key")
    assert "hunter2-hunter2" not in marks.hidden("hunter2-hunter2")
    assert "hunter2" not in marks.without_known("the password is hunter2-hunter2")


def test_without_room_for_more_values_no_text_is_shown() -> None:
    """One of those that were not learnt may be in it."""
    known = KnownSecrets()
    known.is_full = True
    assert "anything" not in SecretMarks(known, b"key").without_known("anything at all")
