"""shelf: books, loans and reports."""
