"""Columns and rows: what a quasi-identifier can be, file formats, Arrow tables."""
