"""A series of releases about mostly the same units: what has to be remembered of the nights, so that all stay safe."""
