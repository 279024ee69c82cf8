"""What kernels of all families use: sorts, exact sums, hashes and random draws."""
