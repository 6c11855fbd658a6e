"""The kernel's part of edgemesh: nftables rules, a route, and the connections that it tracks."""
