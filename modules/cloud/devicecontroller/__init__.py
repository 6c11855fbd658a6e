"""The module devicecontroller: Devices, their membership on nodes, and what nodes report of them."""
