"""Text of others on a terminal: control characters are shown as escapes, so that they move no cursor and forge no line.

Covered are C0 and C1 (with ESC, CSI, OSC), DEL, the characters that turn the direction of text, Unicode's line
separators, and lone surrogates, which no stream can encode.
"""

import re

_CONTROL = (
    "\x00-\x1f\x7f-\x9f"  # C0, DEL, C1
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # direction of text
    "\u2028\u2029"  # line and paragraph separator
    "\ud800-\udfff"
)
_IN_LINE = re.compile(f"[{_CONTROL}]")
_IN_LINES = re.compile(f"(?![\n\t])[{_CONTROL}]")


def printable(text: str) -> str:
    """Return the text as one line: every control character as `\\x1b` or `\\u202e`, line breaks and tabs too."""
    return _IN_LINE.sub(_escaped, text)


def printable_lines(text: str) -> str:
    """Return the text with its line breaks and tabs, every other control character as an escape."""
    return _IN_LINES.sub(_escaped, text)


def printable_json(text: str) -> str:
    """Return a JSON document with the same values and no control character but its line breaks.

    Such a character stands in a string of the document, or the document would be none.
    """
    return _IN_LINES.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
