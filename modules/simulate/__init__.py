"""Whole nodes with their cloud in virtual time, with faults drawn from a seed, and invariants checked all along.

What runs is the product: metamanager on a real SQLite file, edged, edgehub, and the cloud stub's cloudhub and
edgecontroller. Simulated are time, order, the wire, the container runtime and the ways in which all of them fail.

`plan` says what shall happen, `draw` makes a plan of a seed, `run` carries it out, `monitor` and `convergence` know
what must hold, `shrink` makes a failing plan small, `campaign` runs many on all cores.
"""
