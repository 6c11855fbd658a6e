"""What the servers' TLS contexts demand of clients."""

import ssl
from collections.abc import Callable
from pathlib import Path

import pytest

from modules.cloud.cloudhub.certificates.authority_files import AuthorityFiles, open_authority
from modules.cloud.cloudhub.certificates.contexts import https_context, page_context, websocket_context
from tests.modules.cloud.cloudhub.certificates.made import NOW


@pytest.mark.parametrize(
    ("made", "clients"),
    [(websocket_context, ssl.CERT_REQUIRED), (https_context, ssl.CERT_OPTIONAL), (page_context, ssl.CERT_NONE)],
)
def test_a_context_demands_what_the_protocol_says(
    tmp_path: Path, made: Callable[[AuthorityFiles], ssl.SSLContext], clients: ssl.VerifyMode
) -> None:
    """No renegotiation, which costs the server more than the client, and no tickets, which outlive a revocation."""
    files = AuthorityFiles(tmp_path / "tls")
    open_authority(files, ["127.0.0.1"], NOW)
    context = made(files)
    assert context.verify_mode is clients
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2
    assert context.options & ssl.OP_NO_RENEGOTIATION
    assert context.num_tickets == 0
    assert {each["name"] for each in context.get_ciphers() if each["protocol"] == "TLSv1.2"} == {
        "ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-ECDSA-AES256-GCM-SHA384", "ECDHE-ECDSA-CHACHA20-POLY1305",
    }  # fmt: skip
    assert [each["subject"] for each in context.get_ca_certs()] == [((("commonName", "KubeEdge"),),)]
