"""Shortens a message to the size that a mail service accepts."""

from __future__ import annotations

import html
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ml_metrics.alerts.message import Message

OVERHEAD = 8 << 10
"""Headers and boundaries."""
PLAIN = bytes(set(range(ord(" "), 127)) - set(b'="\\'))
"""The bytes that quoted-printable and JSON do not escape."""
GROWTH = 3
"""Quoted-printable writes any other byte as three."""
NOTE = "\n\n… the rest of this message is left out: it is larger than the mail service accepts\n"


def fitted(message: Message, limit: int) -> Message:
    """Return the message, if need be without its pictures, and then with less text.

    Args:
        message: the message.
        limit: the greatest number of bytes of the encoded mail.
    """
    if _size(message) <= limit:
        return message
    bare = replace(message, pictures=())
    if _size(bare) <= limit:
        return bare
    # half for the plain text, half for the page, in which an escaped character has up to six bytes
    room = max(0, limit - OVERHEAD - len(bare.subject) * GROWTH) // (2 * 6 * GROWTH) - len(NOTE.encode())
    beginning = message.text.encode(errors="replace")[: max(0, room)].decode(errors="ignore").rpartition("\n")[0]
    text = beginning + NOTE
    return replace(bare, text=text, html=f"<!DOCTYPE html><pre>{html.escape(text)}</pre>")


def _size(message: Message) -> int:
    """Return the greatest size that the encoded message may have."""
    pictures = sum(len(picture.png) * 3 // 2 + 1000 for picture in message.pictures)
    texts = (message.subject, message.text, message.html, *message.recipients)
    return OVERHEAD + pictures + sum(_encoded(text.encode(errors="replace")) for text in texts)


def _encoded(text: bytes) -> int:
    """Return the greatest length of an encoded text, with its soft line breaks."""
    escaped = len(text.translate(None, PLAIN))
    return (len(text) - escaped + escaped * GROWTH) * 11 // 10 + 10
