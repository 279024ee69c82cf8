"""File formats, a file each: inputs as they come (``inputs/``), and releases as they are published (``released/``).

A new input format is one file in ``inputs/`` and a line in its registry, a new released format one in ``released/``;
their names in a spec stand in ``spec/parts.py``. Nothing outside this room decides by a format's name.
"""
