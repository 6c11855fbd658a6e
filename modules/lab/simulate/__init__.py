"""Simulates whole nodes with their cloud in virtual time, with faults drawn from a seed, and checks invariants
throughout.

The product itself runs: metamanager on a real SQLite file, edged, edgehub, cloudhub and edgecontroller. Time, order,
the wire, the container runtime, and the failures of all of them are simulated.

`plan` has the contents of a run, `draw` makes a plan from a seed, `run` executes it. The `…_watch` modules and
`convergence` check the invariants, `seeds` runs many seeds on all cores and reduces a failing plan.
"""
