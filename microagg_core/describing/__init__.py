"""Describing a release to those who use it: the pages beside its manifest."""
