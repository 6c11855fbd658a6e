"""The Lease of a cloudcore: the fields that it writes, and reads in others' Leases."""

from collections.abc import Set as AbstractSet
from typing import Final

import msgspec

from modules.apimachinery.types.times import format_micro_time, seconds
from modules.cloud.client.calls import ApiCall, JsonObject
from modules.cloud.coordination.known_cloudcores import Duty
from modules.cloud.coordination.lease_settings import LONGEST_NAME, LeaseSettings

API_VERSION: Final = "coordination.k8s.io/v1"
ROUTER: Final = "edgecore.io/router"
"""The annotation with the address and port of a cloudcore's router, for the other cloudcores."""
DUTIES: Final = "edgecore.io/duties"
"""The annotation with what a cloudcore does if it is the one; one of a release before 0.7 has none, and may do all."""
PLURAL: Final = "leases"
_LONGEST: Final = 300
"""Seconds of the longest duration that counts: a dead cloudcore with a longer one would keep its duties."""


class ObservedLease(msgspec.Struct, frozen=True):
    """The known state of another cloudcore's Lease."""

    name: str
    version: str
    """The resourceVersion."""
    holder: str
    duration: float
    """Seconds."""
    renewal: str
    """Differs from one renewal to the next; the clock that it is of is not this machine's, so it is only compared."""
    router: str = ""
    """Address of the router of this cloudcore; "" if others cannot reach it."""
    duties: frozenset[str] = frozenset(Duty)


def lease_name(settings: LeaseSettings, identity: str) -> str:
    """Return the name of a process's Lease: a DNS subdomain."""
    made = "".join(each if each.isascii() and each.isalnum() else "-" for each in identity.lower())
    return settings.name or made.strip("-")[-LONGEST_NAME:].lstrip("-")


def lease_of(
    settings: LeaseSettings,
    identity: str,
    now: float,
    live: JsonObject | None,
    router: str = "",
    duties: AbstractSet[Duty] = frozenset(Duty),
) -> JsonObject:
    """Return the Lease that a renewal writes.

    Args:
        settings: of the Lease.
        identity: of this process.
        now: seconds since the epoch.
        live: the Lease as the API server had it last; None to create it.
        router: where other cloudcores reach the router of this one; "" if they cannot.
        duties: what this cloudcore does if it is the one.
    """
    moment = format_micro_time(seconds(now))
    metadata: JsonObject = {"name": lease_name(settings, identity), "namespace": settings.namespace}
    before: JsonObject = {}
    if live is not None:
        metadata, before = live["metadata"], live.get("spec") or {}
    changed: JsonObject = {"labels": {**(metadata.get("labels") or {}), **settings.labels}}
    others = {name: value for name, value in (metadata.get("annotations") or {}).items() if name != ROUTER}
    changed["annotations"] = {**others, DUTIES: ",".join(sorted(duties)), **({ROUTER: router} if router else {})}
    is_same = before.get("holderIdentity") == identity
    transitions = before.get("leaseTransitions")
    return {
        "apiVersion": API_VERSION,
        "kind": "Lease",
        "metadata": {**metadata, **changed},
        "spec": {
            "holderIdentity": identity,
            "leaseDurationSeconds": settings.duration,
            "acquireTime": before.get("acquireTime", moment) if is_same else moment,
            "renewTime": moment,
            "leaseTransitions": (transitions if isinstance(transitions, int) else 0) + (bool(before) and not is_same),
        },
    }


def observed(obj: JsonObject) -> ObservedLease | None:
    """Return the state of a Lease; None when nobody holds it, or its form is wrong."""
    metadata, spec = obj.get("metadata"), obj.get("spec")
    if not isinstance(metadata, dict) or not isinstance(spec, dict):
        return None
    name, holder, duration = metadata.get("name"), spec.get("holderIdentity"), spec.get("leaseDurationSeconds")
    if not (isinstance(name, str) and isinstance(holder, str) and holder and len(holder) <= LONGEST_NAME):
        return None
    if not isinstance(duration, int) or duration <= 0:
        return None
    renewal = f"{holder} {spec.get('renewTime')} {spec.get('leaseTransitions')}"
    version = str(metadata.get("resourceVersion") or "")
    lasts, router, duties = float(min(duration, _LONGEST)), _annotation(metadata, ROUTER), _annotation(metadata, DUTIES)
    does = frozenset(Duty) if duties is None else frozenset(Duty).intersection(duties.split(","))
    return ObservedLease(name, version, holder, lasts, renewal, router or "", does)


def _annotation(metadata: JsonObject, name: str) -> str | None:
    annotations = metadata.get("annotations")
    found = annotations.get(name) if isinstance(annotations, dict) else None
    return found if isinstance(found, str) and len(found) <= LONGEST_NAME else None


def call(verb: str, settings: LeaseSettings, **fields: object) -> ApiCall:
    """Return a call about Leases of the namespace."""
    fields = {"verb": verb, "api_version": API_VERSION, "plural": PLURAL, "namespace": settings.namespace, **fields}
    return ApiCall(**fields)  # type: ignore[arg-type]
