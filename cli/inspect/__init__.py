"""`backedge inspect`: shows a recorded request token by token, as a page or as text."""
