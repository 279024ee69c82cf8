"""The steps of a release, one module each: a step is found by its being declared here, see :mod:`..step`."""
