"""Chat templates: finding, rendering within limits, and probing them."""
