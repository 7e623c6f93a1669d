r"""The shapes in which a secret appears in text (SPEC §6): what a masker must look for.

A tool prints a key as it is, inside JSON, inside a URL, quoted for a shell, base64-encoded in the middle of
`user:key`, or as hex. Each shape is a byte string of its own; all of them are registered.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator
from typing import Final

MINIMUM_LENGTH: Final = 8
"""Shorter values are not masked alone: they would blank the log (actions/runner#161, #2232)."""

_LINE_ENDS: Final = re.compile(r"\r\n|\n|\r|\\r\\n|\\n")
"""Also the two characters `\\n`: service-account JSON and .env files hold a PEM on one line that way."""

_UNRESERVED: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
"""RFC 3986 section 2.3; never percent-encoded."""

_WRAP_COLUMNS: Final = (76, 64)
"""base64(1) and MIME (RFC 2045 section 6.8) wrap at 76 characters, PEM (RFC 7468) and openssl at 64."""

_SHELL_SPECIAL: Final = re.compile(r"([^\w@%+=:,./-])", re.ASCII)
"""What `printf %q` and hand-written quoting put a backslash before."""

_DOUBLE_QUOTED_SPECIAL: Final = re.compile(r'(["$`\\])')
"""What keeps a meaning inside double quotes (POSIX.1-2017, Shell Command Language 2.2.3)."""


_HTML_QUOTES: Final = (
    ('"', "'"),
    ("&quot;", "'"),
    ("&quot;", "&#39;"),
    ("&quot;", "&#x27;"),
    ("&quot;", "&#039;"),
    ("&quot;", "&apos;"),
    ("&#34;", "&#39;"),
)
"""As XML text and JavaScript, XML attributes, many engines, Python, PHP 5, XML 1.0 and Go write them."""


def forms_of(secret: str) -> frozenset[bytes]:
    r"""Every byte string of 8 or more bytes that gives the secret, or a whole line of it, away.

    >>> {b'pa"ss word', b'pa%22ss+word', b'706122737320776f7264'} < forms_of('pa"ss word')
    True
    """
    found: set[bytes] = set()
    for part in parts_of(secret):
        found.update(_text_forms(part))
        found.update(_binary_forms(to_bytes(part)))
    return frozenset(form for form in found if len(form) >= MINIMUM_LENGTH)


def parts_of(secret: str) -> tuple[str, ...]:
    """The whole value and each of its lines, trimmed; only those of 8 or more characters, longest first."""
    pieces = {trimmed(piece) for piece in (secret, *_LINE_ENDS.split(secret))}
    return tuple(sorted((p for p in pieces if len(p) >= MINIMUM_LENGTH), key=lambda p: (-len(p), p)))


def trimmed(text: str) -> str:
    """Without blanks at its ends, and asterisks: beside a mask they could show the value where it is not."""
    return text.strip("* \t\r\n")


def to_bytes(text: str) -> bytes:
    """UTF-8; a byte that Python smuggled into an environment value (PEP 383) comes out as it went in."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def _text_forms(part: str) -> Iterator[bytes]:
    """The forms that text takes; each again as JSON writes it, for Cline puts all output into JSON."""
    plain = {part, *_json_forms(part), *_shell_forms(part), *_html_forms(part)}
    for form in plain | {inner for text in plain for inner in _json_forms(text)}:
        yield to_bytes(form)
    yield from _percent_forms(to_bytes(part))


def _json_forms(text: str) -> Iterator[str]:
    """Inside a JSON string (RFC 8259 section 7): as is, ASCII alone, PHP's slash, Go's HTML-safe one."""
    unescaped = json.dumps(text, ensure_ascii=False)[1:-1]
    escaped = json.dumps(text)[1:-1]
    yield from (unescaped, escaped)
    yield from (unescaped.replace("/", "\\/"), escaped.replace("/", "\\/"))
    yield escaped.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _shell_forms(text: str) -> Iterator[str]:
    """Between single quotes (shlex.quote, `set -x`), double quotes, and with backslashes (`printf %q`)."""
    yield text.replace("'", "'\"'\"'")
    yield text.replace("'", "'\\''")
    yield _DOUBLE_QUOTED_SPECIAL.sub(r"\\\1", text)
    yield _SHELL_SPECIAL.sub(r"\\\1", text)


def _html_forms(text: str) -> Iterator[str]:
    """As a page or XML shows it (HTML, section 13.1.4): with either quote left, or as one of its references.

    Only these five characters are ever escaped by Python, Go, PHP, JavaScript and the template engines.
    """
    basic = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    for double, single in _HTML_QUOTES:
        yield basic.replace("'", single).replace('"', double)


def _percent_forms(data: bytes) -> Iterator[bytes]:
    """Percent-encoded (RFC 3986 section 2.1): both cases of hex; with and without `/`; `+` for a space.

    Each also encoded once more: a URL that is a parameter of another one.
    """
    for template in ("%%%02X", "%%%02x"):
        for kept in (b"", b"/", b"!'()*", b"!'()*/;,?:@&=+$#"):  # the last two: JavaScript's two functions
            encoded = _percent(data, template, _UNRESERVED | frozenset(kept))
            yield from (encoded, encoded.replace(b"%", b"%25"))
            plus = encoded.replace(b"%20", b"+")
            yield from (plus, plus.replace(b"%", b"%25").replace(b"+", b"%2B"))


def _percent(data: bytes, template: str, kept: frozenset[int]) -> bytes:
    return b"".join(
        data[at : at + 1] if byte in kept else (template % byte).encode() for at, byte in enumerate(data)
    )


def _binary_forms(data: bytes) -> Iterator[bytes]:
    yield data.hex().encode()
    yield data.hex().upper().encode()
    for form in _base64_forms(data):
        yield form
        yield form.translate(_URL_SAFE)


_URL_SAFE: Final = bytes.maketrans(b"+/", b"-_")
"""RFC 4648 section 5."""


def _base64_forms(data: bytes) -> Iterator[bytes]:
    """In its three alignments: the characters that the secret alone decides, whatever stands around it.

    At the end of the input its last character and padding are decided too: with them, and without padding.
    """
    for before in range(3):
        skip = (0, 2, 3)[before]
        encoded = base64.b64encode(b"\0" * before + data)
        whole = (before + len(data)) * 8 // 6
        yield encoded[skip:whole]
        yield encoded[skip:].rstrip(b"=")
        yield encoded[skip:]
    yield from _wrapped(base64.b64encode(data))


def _wrapped(encoded: bytes) -> Iterable[bytes]:
    """The lines of a long value as `base64 FILE` prints it; every one would be a piece of the key."""
    for columns in _WRAP_COLUMNS:
        if len(encoded) > columns:
            yield from (encoded[at : at + columns] for at in range(0, len(encoded), columns))
