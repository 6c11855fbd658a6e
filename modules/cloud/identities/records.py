"""The cloud's records of identities, each a ConfigMap: so they are where the objects are, in the
embedded database, in a shared one, or in the cluster, and all replicas learn of a change.
"""

import hashlib
from typing import Annotated, Final

import msgspec

from beehive.decoding import decode_json
from modules.cloud.client.calls import ApiCall, JsonObject
from modules.cloud.coordination.lease_settings import LabelKey, LabelValue

LABEL: Final = "edgecore.io/identity"
"""The label of these ConfigMaps; its value is the kind of the record."""
API_VERSION: Final = "v1"
PLURAL: Final = "configmaps"
_KEY: Final = "record.json"
_LONGEST_NAME: Final = 240
"""Characters of a name that are in the ConfigMap's; for a longer one its hash is."""

Text = Annotated[str, msgspec.Meta(max_length=1024)]
Labels = Annotated[dict[LabelKey, LabelValue], msgspec.Meta(max_length=32)]


class NodeIdentity(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="node"):
    """The owner key of a node's name, and whether the node is revoked. Times are seconds since the epoch."""

    name: Text
    key: Text = ""
    """The public key of the node, by its fingerprint; "" for a node that was revoked before it had one."""
    next_key: Text = ""
    """The key of a renewed certificate that has not been used yet."""
    since: float = 0.0
    """A certificate of another key that was issued later was issued under the rules, and its key becomes the node's: so
    a cloud that was restored from a backup knows its nodes."""
    pinned_at: float = 0.0
    revoked_at: float = 0.0
    """0 for a node that is not revoked."""
    reason: Text = ""
    replaced_at: float = 0.0
    """When another machine got the name last: tokens of pods that were issued up to this second are the former
    machine's."""
    labels: Labels = {}
    """Labels that the Node gets when it registers, from the node's join token."""


class RevokedCertificate(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind",
                         tag="certificate"):  # fmt: skip
    """A certificate that is refused, of whomever it is."""

    name: Text
    """Its serial number in upper-case hexadecimal digits."""
    revoked_at: float
    reason: Text = ""


class RevokedUser(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="user"):
    """A user, such as an administrator, whose certificates up to a moment are refused."""

    name: Text
    """The common name."""
    revoked_at: float
    """Certificates that were issued before this second are refused."""
    serials: tuple[Text, ...] = ()
    """Certificates of the user that are refused though they were issued in that very second."""
    reason: Text = ""


class JoinToken(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="token"):
    """The permissions of a token. The token itself, which is a secret, is not stored."""

    name: Text
    """The token's id, the claim `jti`."""
    created_at: float
    expires_at: float
    node: Text = ""
    """The only node that can join with it; "" for any."""
    once: bool = False
    """Whether one node can join with it, once."""
    replace: bool = False
    """Whether the node's name may belong to another key then. Such a token is for one node, once."""
    used_by: Text = ""
    """The node that has joined with a token that is for one."""
    used_key: Text = ""
    """Its key: with the same one it may ask again, when the answer was lost."""
    labels: Labels = {}
    """Labels of the Nodes that join with it."""
    by: Text = ""
    """The administrator who made it; "" for a token of an earlier cloudcore."""
    reason: Text = ""


Record = NodeIdentity | RevokedCertificate | RevokedUser | JoinToken
Key = tuple[str, str]
"""Kind and name of a record."""


def key_of(record: Record) -> Key:
    """Return kind and name of a record."""
    return kind_of(record), record.name


def kind_of(record: Record) -> str:
    """Return the kind of a record: node, certificate, user or token."""
    return str(record.__struct_config__.tag)


def object_name(key: Key) -> str:
    """Return the name of the ConfigMap of a record: a DNS subdomain."""
    kind, name = key
    is_plain = name == name.lower() and name.replace("-", "").replace(".", "").isalnum() and name.isascii()
    if kind in ("user", "certificate") or not is_plain or len(name) > _LONGEST_NAME:
        name = hashlib.sha256(name.encode()).hexdigest()[:40]
    return f"{kind}.{name}"


def object_of(record: Record, namespace: str, live: JsonObject | None) -> JsonObject:
    """Return the ConfigMap of a record; `live` is its predecessor, None to create it."""
    key = key_of(record)
    metadata = dict((live or {}).get("metadata") or {"name": object_name(key), "namespace": namespace})
    metadata["labels"] = {**(metadata.get("labels") or {}), LABEL: key[0]}
    data = {_KEY: msgspec.json.encode(record).decode()}
    return {"apiVersion": API_VERSION, "kind": "ConfigMap", "metadata": metadata, "data": data}


def record_in(obj: JsonObject) -> Record | None:
    """Return the record in a ConfigMap, or None."""
    data, metadata = obj.get("data"), obj.get("metadata")
    text = data.get(_KEY) if isinstance(data, dict) else None
    if not isinstance(text, str) or not isinstance(metadata, dict):
        return None
    try:
        record: Record = decode_json(text.encode(), Record)
    except (msgspec.MsgspecError, UnicodeError):
        return None
    return record if metadata.get("name") == object_name(key_of(record)) else None


def call(verb: str, namespace: str, name: str = "", body: JsonObject | None = None) -> ApiCall:
    """Return an API call about one of these ConfigMaps."""
    return ApiCall(verb=verb, api_version=API_VERSION, plural=PLURAL, namespace=namespace, name=name, body=body)
