"""Errors of credentials."""

from modules.cloud.client.transport_errors import KubeCredentialsError


def no_credentials(where: str, why: str) -> KubeCredentialsError:
    """Return the error that a kubeconfig's user has no credentials that can be used now."""
    return KubeCredentialsError("cannot get credentials for the API server", where, why)
