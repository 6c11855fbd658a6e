"""Pull policies and pulls of images."""
