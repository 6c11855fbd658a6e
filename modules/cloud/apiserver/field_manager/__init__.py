"""Who has set which field: `metadata.managedFields`, and server-side apply (sigs.k8s.io/structured-merge-diff)."""
