"""What kernels of all families use: sorts, exact sums, components, hashes and random draws."""
