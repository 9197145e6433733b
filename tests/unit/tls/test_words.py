"""What went wrong with TLS, in few words."""

import errno
import ssl

import pytest

from greenroom.tls.words import in_words


def error(kind: type[ssl.SSLError], **attributes: str) -> ssl.SSLError:
    made = kind(1, "[SSL: WRONG_VERSION_NUMBER] wrong version number (_ssl.c:1006)")
    for name, value in attributes.items():
        setattr(made, name, value)
    return made


@pytest.mark.parametrize(
    ("failed", "said"),
    [
        (error(ssl.SSLCertVerificationError, verify_message="certificate has expired"), "certificate has expired"),
        (error(ssl.SSLCertVerificationError, verify_message=""), "the certificate cannot be verified"),
        (error(ssl.SSLError, reason="TLSV13_ALERT_CERTIFICATE_REQUIRED"), "tlsv13 alert certificate required"),
        (FileNotFoundError(errno.ENOENT, "No such file or directory"), "No such file or directory"),
        (OSError("told otherwise"), "told otherwise"),
        (OSError(), "OSError"),
    ],
)
def test_no_source_file_of_openssl_is_named(failed: OSError, said: str) -> None:
    assert in_words(failed) == said
