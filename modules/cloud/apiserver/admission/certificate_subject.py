"""The admission plug-in CertificateSubjectRestriction: no certificate request asks for administrators' rights.

Members of `system:masters` may do everything, regardless of RBAC: whoever got such a certificate would be an
administrator for as long as it lives.
"""

from typing import Final

from modules.apimachinery.api_errors import ForbiddenError
from modules.apimachinery.certificate_requests import subject_of
from modules.apimachinery.kinds import JsonObject, kind_named
from modules.apimachinery.lister import Lister
from modules.cloud.authentication.users import ADMINISTRATORS

_REQUEST: Final = kind_named("CertificateSigningRequest")
_SIGNER: Final = "kubernetes.io/kube-apiserver-client"


def certificate_subject(request: JsonObject, live: JsonObject | None, _objects: Lister) -> None:
    """Check the subject of a certificate request.

    Raises:
        ForbiddenError: a new request to the signer of the API server's clients asks for the group `system:masters`, or
            cannot be read: its signer may be able to.
    """
    spec = request.get("spec") or {}
    if live is not None or spec.get("signerName") != _SIGNER:
        return
    subject, why = subject_of(spec.get("request")), ""
    if subject is None:
        why = "failed to parse CSR"
    elif ("O", ADMINISTRATORS) in subject:
        why = f"use of {_SIGNER} signer with {ADMINISTRATORS} group is not allowed"
    if why:
        raise ForbiddenError(_REQUEST.plural, str(request["metadata"].get("name") or ""), why, _REQUEST.api_group)
