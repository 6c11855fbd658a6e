"""The transport for a kubeconfig's choice, on a runtime."""

from typing import TYPE_CHECKING

from modules.cloud.client.credentials.kubeconfig_source import credential_source
from modules.cloud.client.http.pool import ORDINARY
from modules.cloud.client.http.transport import HttpTransport

if TYPE_CHECKING:
    from beehive.runtime import Runtime
    from modules.cloud.client.kubeconfig.model import Selected


def http_transport(selected: "Selected", runtime: "Runtime", agent: str, connections: int = ORDINARY) -> HttpTransport:
    """Return a transport to a cluster as its user; the caller closes it.

        selected = load(paths_of(os.environ, Path.home())).select()
        transport = http_transport(selected, runtime, f"cloudcore/{VERSION}")

    Args:
        selected: cluster and user of a kubeconfig, or of a pod's service account.
        runtime: its clock sets the deadlines, its threads look up names and run credential plug-ins.
        agent: the value of User-Agent.
        connections: at most, for requests that are no streams.

    Raises:
        KubeconfigError: an entry cannot be used.
    """
    source = credential_source(selected, runtime.clock)
    return HttpTransport(
        selected,
        source,
        runtime.clock,
        lambda call, name: runtime.call(call, name=name),
        agent=agent,
        connections=connections,
    )
