"""The settings of a cloudcore's Lease, which the command line reads."""

from collections.abc import Mapping
from typing import Annotated, Final

import msgspec

NAMESPACE: Final = "kubeedge"
LONGEST_NAME: Final = 253
"""Characters of a name in Kubernetes (DNS subdomain)."""
_NAME: Final = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"
_LABEL_KEY: Final = r"^([a-z0-9.-]{1,253}/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$"
_LABEL_VALUE: Final = r"^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$"

LabelKey = Annotated[str, msgspec.Meta(pattern=_LABEL_KEY, max_length=317)]
LabelValue = Annotated[str, msgspec.Meta(pattern=_LABEL_VALUE, max_length=63)]


class LeaseSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The Lease of a cloudcore, and the namespace and labels of the others' Leases."""

    namespace: Annotated[str, msgspec.Meta(pattern=_NAME, max_length=63)] = NAMESPACE
    """The namespace of the Leases of all these cloudcores."""
    name: Annotated[str, msgspec.Meta(pattern=f"^$|{_NAME}", max_length=LONGEST_NAME)] = ""
    """"": the identity of the process, which is unique."""
    labels: Annotated[
        Mapping[LabelKey, LabelValue],
        msgspec.Meta(min_length=1),
    ] = msgspec.field(default_factory=lambda: {"app.kubernetes.io/name": "cloudcore"})
    """Leases of one namespace with these labels belong to the cloudcores that divide the duties."""
    duration: int = 30
    """Seconds after which others take a cloudcore for dead that does not renew; two renewals may fail."""
    period: float = 10.0
    """Seconds between two renewals, at least."""
