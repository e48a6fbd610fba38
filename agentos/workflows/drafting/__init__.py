"""What the document workflows share: draft, check, review, revise by patch, stop when it goes in circles."""
