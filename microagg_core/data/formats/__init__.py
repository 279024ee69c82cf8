"""File formats, a file each: inputs as they come (``inputs/``), and releases as they are published (``released/``).

A new input format is one file in ``inputs/``, a new released format one in ``released/``; each is named after its file
in ``spec/formats.py``. Nothing outside this room decides by a format's name.
"""
