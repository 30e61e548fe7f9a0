"""Parts of the documentation site beside the committed pages: a reference made from the code, lists, checks."""
