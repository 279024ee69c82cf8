"""A series of nights about mostly the same people: who is in which class, since when, and what becomes of whom."""
