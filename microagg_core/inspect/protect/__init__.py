"""Groups that hold more than k records: several confidential values, in shares near those of the whole release."""
