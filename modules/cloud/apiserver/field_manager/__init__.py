"""Field managers: `metadata.managedFields`, and server-side apply (sigs.k8s.io/structured-merge-diff)."""
