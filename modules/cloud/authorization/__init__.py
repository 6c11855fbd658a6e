"""Authorization of nodes: Kubernetes' node authorizer and its admission plug-in NodeRestriction, always on."""
