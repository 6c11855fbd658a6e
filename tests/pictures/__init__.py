"""The pictures in docs/pictures, made from the real thing. `make pictures` renews them."""
