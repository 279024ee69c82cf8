"""What all that group records share: the copy that goes in, the labels that come out, the bound on what they lose."""
