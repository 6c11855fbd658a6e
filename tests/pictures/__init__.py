"""The pictures in docs/pictures, made from the real thing. `make pictures` makes them anew."""
