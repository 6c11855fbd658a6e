"""A parent of containers for machines without conmon: a process with conmon's command line, files and sockets.

It takes several times conmon's memory. Like the shim of processes it runs without site-packages (`python -I -S`).
"""
