"""Numbers into words: plans and releases as a person or a program reads them."""
