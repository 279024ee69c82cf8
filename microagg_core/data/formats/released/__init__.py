"""Released formats, one file each: how released values are written, and read as somebody does who has only the file."""
