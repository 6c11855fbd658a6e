"""The admission plug-in CertificateSubjectRestriction: no certificate request asks for administrators' rights.

Members of `system:masters` may do everything, regardless of RBAC: whoever got such a certificate would be an
administrator for as long as it lives.
"""

from base64 import b64decode
from typing import Final

from modules.apimachinery.api_errors import ForbiddenError
from modules.apimachinery.kinds import JsonObject, kind_named
from modules.apimachinery.lister import Lister
from modules.cloud.authentication.users import ADMINISTRATORS

_REQUEST: Final = kind_named("CertificateSigningRequest")
_SIGNER: Final = "kubernetes.io/kube-apiserver-client"


def certificate_subject(request: JsonObject, live: JsonObject | None, _objects: Lister) -> None:
    """Check the subject of a certificate request. An unreadable one passes: its signer refuses it.

    Raises:
        ForbiddenError: a new request to the signer of the API server's clients asks for the group `system:masters`.
    """
    spec = request.get("spec") or {}
    if live is None and spec.get("signerName") == _SIGNER and ADMINISTRATORS in _organizations(spec.get("request")):
        why = f"use of {_SIGNER} signer with {ADMINISTRATORS} group is not allowed"
        raise ForbiddenError(_REQUEST.plural, str(request["metadata"].get("name") or ""), why, _REQUEST.api_group)


def _organizations(encoded: object) -> list[str]:
    """Return the organizations in the subject of a request, base64 of PEM: the groups of its user."""
    from cryptography import x509  # noqa: PLC0415 - 17 MB; few clouds have such requests
    from cryptography.x509.oid import NameOID  # noqa: PLC0415

    try:
        subject = x509.load_pem_x509_csr(b64decode(str(encoded))).subject
        return [str(name.value) for name in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)]
    except (ValueError, TypeError, x509.InvalidVersion):
        return []
