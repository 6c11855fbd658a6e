"""The pod lifecycle event generator (PLEG): reports pods whose sandboxes or containers changed."""
