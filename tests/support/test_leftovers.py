"""What the end of a run removes."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs import REPOSITORY
from tests.modules.runtimes.oci.node import reason_missing
from tests.support.leftovers import remove_cni_cache

_RULES = """
ip link set lo up
for program in iptables ip6tables; do
    for chain in DNAT MASQ SETMARK; do $program -t nat -N CNI-HOSTPORT-$chain; done
    $program -t nat -A CNI-HOSTPORT-MASQ -m mark --mark 0x2000/0x2000 -j MASQUERADE
    $program -t nat -A POSTROUTING -m comment --comment "CNI portfwd requiring masquerade" -j CNI-HOSTPORT-MASQ
    $program -t nat -A OUTPUT -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT
    $program -t nat -A POSTROUTING -o lo -j ACCEPT
    $program -t nat -N CNI-DN-left-empty
done
if test "$1"; then
    iptables -t nat -N CNI-DN-0123
    iptables -t nat -A CNI-HOSTPORT-DNAT -p tcp -j CNI-DN-0123
fi
iptables -A INPUT ! -i lo -m comment --comment "edgecore: loopback from elsewhere" -j DROP
"$2" -c "from tests.support import leftovers; leftovers.remove_rules_for_ports(); leftovers.remove_loopback_rule()"
iptables-save; ip6tables-save
"""


@pytest.mark.parametrize("is_used", [False, True])
def test_rules_that_no_pod_needs_are_removed(*, is_used: bool) -> None:
    """Chains of the machine's ports stay while a pod has one; rules of others always."""
    if reason := reason_missing():
        pytest.skip(reason)
    done = subprocess.run(
        ["unshare", "--net", "sh", "-euc", _RULES, "sh", "x" if is_used else "", sys.executable],
        cwd=REPOSITORY, capture_output=True, text=True, check=True,
    )  # fmt: skip
    four, six = done.stdout.split("ip6tables-save", 1)
    assert ("CNI-HOSTPORT" in four, "CNI-" in six) == (is_used, False), done.stdout
    assert "edgecore" not in done.stdout
    assert done.stdout.count("-o lo -j ACCEPT") == 2


@pytest.mark.parametrize("is_used", [False, True])
def test_the_empty_directories_of_a_library_are_removed(tmp_path: Path, *, is_used: bool) -> None:
    results = tmp_path / "cni" / "results"
    results.mkdir(parents=True)
    if is_used:
        (results / "of-a-pod").touch()
    remove_cni_cache(tmp_path / "cni")
    assert (tmp_path / "cni").exists() is is_used
