"""What workers do in a night of a series, besides grouping its arrivals.

Tonight's units are told by keyed digests and met with the ledger, range by range; those that were released before
travel with their atoms, whose values come from earlier releases; and from the files that would be published the next
state of the ledger is made, which tells whether every trace has its k units.
"""
