"""The admission plug-in CertificateSubjectRestriction."""

from base64 import b64encode
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from beehive.clock import RealClock
from modules.apimachinery.api_errors import ForbiddenError
from modules.cloud.apiserver.admission.chain import PLUGINS
from modules.cloud.apiserver.cluster import Cluster

CLIENTS = "kubernetes.io/kube-apiserver-client"


def asking(signer: str, *groups: str) -> dict[str, Any]:
    """Return a certificate request for a user in groups."""
    names = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "carol"), *names])
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject)
    request = builder.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
    spec = {"request": encoded(request.public_bytes(Encoding.PEM)), "signerName": signer, "usages": ["client auth"]}
    return {
        "kind": "CertificateSigningRequest",
        "apiVersion": "certificates.k8s.io/v1",
        "metadata": {"name": "carol"},
        "spec": spec,
    }


def encoded(text: bytes) -> str:
    """Return base64 of bytes."""
    return b64encode(text).decode()


def test_nobody_asks_to_be_an_administrator() -> None:
    cluster = Cluster(RealClock(), plugins=PLUGINS)
    with pytest.raises(ForbiddenError) as refused:
        cluster.create(asking(CLIENTS, "shop", "system:masters"))
    assert refused.value.message == (
        'certificatesigningrequests.certificates.k8s.io "carol" is forbidden: '
        f"use of {CLIENTS} signer with system:masters group is not allowed"
    )
    assert cluster.create(asking(CLIENTS, "shop"))


def test_requests_to_other_signers_are_their_business_and_no_other_may_be_unreadable() -> None:
    """A signer in Go may read what is not read here."""
    cluster = Cluster(RealClock(), plugins=PLUGINS)
    odd = asking("example.com/own")
    odd["metadata"]["name"] = "odd"
    odd["spec"]["request"] = encoded(b"-----BEGIN CERTIFICATE REQUEST-----\nMA==\n-----END CERTIFICATE REQUEST-----\n")
    assert cluster.create(asking("example.com/own", "system:masters"))
    assert cluster.create(odd)
    odd["spec"]["signerName"] = CLIENTS
    odd["metadata"]["name"] = "unreadable"
    with pytest.raises(ForbiddenError, match="failed to parse CSR"):
        cluster.create(odd)
