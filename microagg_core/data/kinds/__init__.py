"""What a quasi-identifier can be: how a column becomes numbers, and how its group means are released."""
