"""Several cloudcores: each keeps a Lease, and the duties that belong to no node's session are divided among those that
are alive.
"""
