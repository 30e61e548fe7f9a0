"""How each fact changes the stores."""
