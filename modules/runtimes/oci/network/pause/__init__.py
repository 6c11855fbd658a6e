"""The first process of a pod whose containers share their processes, as a container of its own.

`process` confines a new process and has it execute `program`. This package runs without site-packages
(`python -I -S`), and imports only a little of the standard library.
"""
