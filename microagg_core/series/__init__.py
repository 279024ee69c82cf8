"""A series of releases about mostly the same people: what each night has to know of the nights before it."""
