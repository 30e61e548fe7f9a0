"""What the documentation site has beside the committed pages: a reference made from the code, lists, checks."""
