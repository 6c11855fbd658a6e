"""The module devicecontroller: Devices, their membership on nodes, and the nodes' reports about them."""
