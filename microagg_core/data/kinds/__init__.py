"""Kinds of quasi-identifiers: a column becomes numbers, and a group gets what stands for its values."""

#: In which a column is offered to kinds; those of other distributions come last.
ORDER = ("floats", "whole_numbers", "decimals", "dates", "timestamps", "booleans", "nominal", "ordinal")
