"""The steps of a release, each in two halves: what a worker does with one piece, and what is combined from the pieces.

Workers take a :class:`~microagg_core.release.steps.work.Task` and return a
:class:`~microagg_core.release.steps.work.Receipt`; both hold names and numbers only. Rows, labels and statistics travel
through the work area.
"""
