"""Cline's records masked one after the other, where a secret may stand in pieces of several of them.

A model's answer comes in chunks, one record each (FORMAT.md §2). A key that is cut by a chunk's end is no
form of the key in either record, and both together are the key. So the chunks of one block are masked as one
stream: what may yet turn out to begin a secret is held back into the next chunk, or left to the block's end,
which repeats the whole text and is masked whole.
"""

from __future__ import annotations

import json
from typing import Final

from clinebox.domain.cline.events import NotARecord
from clinebox.domain.cline.stream import LINE_LIMIT_BYTES, parse_line
from clinebox.domain.json_value import JsonValue, as_mapping, as_text
from clinebox.domain.secrets.masker import Masker, MaskStream

HEAD_BYTES: Final = 200
"""Where a record's type stands: Cline writes `ts`, `type` and `event.type` first (3.0.57 to 3.0.65)."""
BLOCKS_LIMIT: Final = 64
"""Open blocks that are followed; a record stream of Cline's has one or two."""


class _Block:
    """One text that comes in chunks: what was shown of it, and what is held back."""

    __slots__ = ("_stream", "shown")

    def __init__(self, stream: MaskStream) -> None:
        self._stream = stream
        self.shown = ""

    def add(self, chunk: str) -> str:
        masked = self._stream.feed(chunk.encode("utf-8", "replace")).decode("utf-8", "replace")
        self.shown += masked
        return masked


class RecordStreamMasker:
    """Takes the lines of one stdout in order; `line` gives each as it may be written."""

    def __init__(self, masker: Masker) -> None:
        self._masker = masker
        self._blocks: dict[str, _Block] = {}

    def line(self, raw: bytes) -> bytes:
        """The record without secrets, also without those that earlier records began; valid if it was."""
        if not self._masker.form_count:
            return raw
        head = raw[:HEAD_BYTES]
        if b'"content_end"' in head or b'"iteration_start"' in head:
            self._blocks.clear()
        elif b'"content_start"' in head or b'"content_update"' in head:
            return self._masker.mask(self._delta(raw))
        return self._masker.mask(raw)

    def _delta(self, raw: bytes) -> bytes:
        record = parse_line(raw)
        if isinstance(record, NotARecord) or not isinstance(record, dict):
            return raw
        event = as_mapping(record.get("event"))
        update = as_mapping(event.get("update"))
        match event.get("contentType"):
            case "text":
                changed = self._text(event)
            case "reasoning":
                changed = self._piece(event, "reasoning", "reasoning")
            case _:
                key = f"tool {event.get('toolCallId')} {update.get('stream')}"
                changed = self._piece(update, "chunk", key)
        return _encoded(record) if changed else raw

    def _text(self, event: dict[str, JsonValue]) -> bool:
        text, whole = as_text(event.get("text")), as_text(event.get("accumulated"))
        if text is not None and text == whole:
            self._blocks.pop("text", None)
        changed = self._piece(event, "text", "text")
        block = self._blocks.get("text")
        if whole is None or block is None or block.shown == whole:
            return changed
        event["accumulated"] = block.shown
        return True

    def _piece(self, holder: dict[str, JsonValue], name: str, key: str) -> bool:
        """Mask one chunk within its block, in place; whether that changed it."""
        chunk = as_text(holder.get(name))
        if chunk is None:
            return False
        masked = self._block(key).add(chunk)
        holder[name] = masked
        return masked != chunk

    def _block(self, key: str) -> _Block:
        block = self._blocks.get(key)
        if block is None or len(block.shown) > LINE_LIMIT_BYTES:
            if len(self._blocks) >= BLOCKS_LIMIT:
                self._blocks.clear()
            block = self._blocks[key] = _Block(self._masker.stream())
        return block


def _encoded(record: dict[str, JsonValue]) -> bytes:
    """As Cline writes a record, so that its shape is known again."""
    return json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
