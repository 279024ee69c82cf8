"""A series of nights about the same units: its key, its ledger, and what becomes of the units from night to night.

One night in its order: ``tonight`` (may it begin), ``match`` (who is who), ``fates`` and ``survivors`` (who is released
again), ``candidates`` (what the files hold), ``traces`` (the next ledger), ``verdict`` (the gate's checks), ``ledger``
(the commit), ``publications`` (what readers can read). A ``generation`` is a night's document, with files of ``units``
and ``atoms``. Besides: ``erasure`` (whom it takes) and ``eraser`` (who carries it out), ``verification``, ``attack``.
"""
