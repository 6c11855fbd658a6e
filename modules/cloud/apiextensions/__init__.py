"""CustomResourceDefinitions, and the kinds of objects that they define."""
