"""The tools to try edgecore with: simulation, replay of recordings, stand-ins, the documentation site.

- `simulate`: nodes and their cloud in virtual time, with faults drawn from a seed.
- `replay`: recordings of a node, played again through its modules.
- `doubles`: stand-ins for what a module depends on, held to the same contract tests.
- `site`: pages of the documentation that are generated.

It is a distribution of its own, edgecore-lab (`deploy/lab`), which the extra `edgecore[lab]` installs. No process
imports it, except for the commands of the lab, when they are called.
"""
