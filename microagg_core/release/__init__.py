"""Releases at the output: manifest, parts, publishing, finding and rechecking them."""
