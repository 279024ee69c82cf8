"""Series of nights watched by an outsider who knows the truth, and who shares no code with the ledger."""
