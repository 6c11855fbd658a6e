"""What a node may ask and change: Kubernetes' node authorizer and its admission plug-in NodeRestriction, always on."""
