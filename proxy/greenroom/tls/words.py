"""What went wrong with TLS, in few words: OpenSSL's own name the source files and lines of its code."""

import ssl


def in_words(error: OSError) -> str:
    """An error of a handshake, or of a file that OpenSSL read."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message or "the certificate cannot be verified"
    reason: str | None = getattr(error, "reason", None)  # Only where OpenSSL gave one.
    if isinstance(error, ssl.SSLError) and reason:
        return reason.replace("_", " ").lower()
    return error.strerror or str(error) or type(error).__name__
