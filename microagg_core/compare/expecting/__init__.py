"""What a release would lose and give away, before it is made: whole blocks of the input, grouped by some settings.

The figures are for the operator alone. A small input is taken whole, as the release would take it. Of a larger one
blocks are drawn, and of large blocks pieces that are cut out of them at medians, in which records lie as densely as in
the whole: rows that are drawn one by one would lie further from each other than they do.
"""
