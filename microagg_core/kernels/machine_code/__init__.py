"""How kernels are compiled, for which processor, and where what was compiled is kept between processes."""
