"""Records in, pages out."""
