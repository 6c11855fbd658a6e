"""Several cloudcores: each keeps a Lease, and the live cloudcores share the duties that belong to no node's session."""
