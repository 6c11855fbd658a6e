"""The process that pulls, imports and unpacks images: one for each pull or import, gone when that ends.

It trusts nothing that it reads. It runs without site-packages (`python -I -S`) and imports only the standard library
and `beehive.files`, so that it takes 15 to 30 MB while it works, and edgecore keeps nothing of it. `conversation` has
the protocol: JSON lines on standard input and output.
"""
