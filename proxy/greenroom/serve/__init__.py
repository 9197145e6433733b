"""What the relay asks: the inspector that looks into messages, and the handlers that answer handed-over calls."""
