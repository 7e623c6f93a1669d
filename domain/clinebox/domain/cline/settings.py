"""The settings files that Cline reads, as bytes, and whether they are still what was written (SPEC §10).

Layout measured with 3.0.57 and 3.0.65 (RUN.md). One value that Cline's schema refuses makes it take the whole
file for empty, and the run then goes to another provider without a word: hence the checks and the read-back.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from returns.pipeline import is_successful
from returns.result import Failure, Result, Success

from clinebox.domain.json_value import JsonValue, as_mapping, parse_json

PROVIDER: Final = "openai-compatible"
SESSION_HEADER: Final = "x-session-id"
NO_KEY: Final = "EMPTY"
"""What OpenAI-compatible servers without a key are customarily sent."""

# Cline's schema wants an ISO date-time; it writes its own when it rewrites the file. A fixed one keeps the
# bytes a function of the settings.
_UPDATED_AT: Final = "2026-01-01T00:00:00.000Z"
_HEADER_VALUE: Final = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")
"""RFC 9110, section 5.5, less what RFC 9110 calls obsolete: visible ASCII, blanks inside only."""


@dataclass(frozen=True, slots=True)
class ProviderSettings:
    """How Cline reaches the model. Never printed with its key."""

    base_url: str
    """Up to and with `/v1`, without a trailing slash."""
    model: str
    session_id: str
    api_key: str | None = field(default=None, repr=False)
    """None for a server that asks for none: it is sent `EMPTY`."""
    context_window_tokens: int | None = None
    """Cline assumes 128,000 and compacts at 90 % unless told."""


def provider_settings(settings: ProviderSettings) -> Result[bytes, str]:
    """The bytes of providers.json; to be written with mode 0600.

    Failure(sentence) when the key or the session id cannot stand in an HTTP header, or the context window is
    not positive. The key is never quoted.
    """
    problem = next(_problems(settings), None)
    if problem is not None:
        return Failure(problem)
    entry: JsonValue = {
        "settings": _settings(settings),
        "updatedAt": _UPDATED_AT,
        "tokenSource": "manual",
    }
    document: JsonValue = {
        "version": 1,
        "lastUsedProvider": PROVIDER,
        "modes": {},
        "providers": {PROVIDER: entry},
    }
    return Success(_encoded(document))


def global_settings(disabled_tools: tuple[str, ...] = ()) -> bytes:
    """The bytes of global-settings.json: no telemetry, no self-update, and the named tools taken away."""
    document: dict[str, JsonValue] = {"telemetryOptOut": True, "autoUpdateEnabled": False}
    if disabled_tools:
        document["disabledTools"] = list(disabled_tools)
    return _encoded(document)


def rules_file(system_text: str) -> bytes:
    """The bytes of a rules file: Cline appends its text, trimmed, to its own system prompt.

    The front matter is ours, so that a text that starts with `---` stays text: with 3.0.57 and 3.0.65 a rule
    whose own front matter said `disabled: true` was left out, and any other front matter was cut off.
    """
    return f"---\nname: clinebox\n---\n{system_text}\n".encode("utf-8", "replace")


def settings_match(expected: bytes, read_back: bytes) -> Result[None, str]:
    """Whether the settings that Cline has are the ones that were written; it rewrites the file at its start.

    Layout, key order and `updatedAt` may differ; the provider and each of its settings may not.
    Failure(sentence) names the setting, never a value: one of them is the key.
    """
    wanted, found = _meaning(expected), _meaning(read_back)
    if found is None:
        return Failure("Cline's provider settings cannot be read back as JSON: it would take them for empty")
    if wanted == found:
        return Success(None)
    differing = [
        name for name in sorted({*(wanted or {}), *found}) if (wanted or {}).get(name) != found.get(name)
    ]
    known = [name if name in _KNOWN_NAMES else "another setting" for name in differing]
    return Failure(f"Cline's provider settings are not as written: {', '.join(dict.fromkeys(known))} differ")


_KNOWN_NAMES: Final = frozenset(
    {"lastUsedProvider", "provider", "apiKey", "model", "baseUrl", "headers", "contextWindow"}
)
"""A foreign name is not quoted: the file is the sandbox's, and a name may be anything."""


def _problems(settings: ProviderSettings) -> Iterator[str]:
    if settings.api_key is not None and not _HEADER_VALUE.fullmatch(settings.api_key):
        yield (
            "the model key is empty, or holds a blank at an end, a line end or a character beyond ASCII: "
            "it cannot stand in an HTTP header"
        )
    if not _HEADER_VALUE.fullmatch(settings.session_id):
        yield f"the session id {settings.session_id!r} cannot stand in an HTTP header: use visible ASCII"
    window = settings.context_window_tokens
    if window is not None and window < 1:
        yield f"the context window is {window} tokens: give a positive number, or none"


def _settings(settings: ProviderSettings) -> JsonValue:
    values: dict[str, JsonValue] = {
        "provider": PROVIDER,
        "apiKey": NO_KEY if settings.api_key is None else settings.api_key,
        "model": settings.model,
        "baseUrl": settings.base_url,
        "headers": {SESSION_HEADER: settings.session_id},
    }
    if settings.context_window_tokens is not None:
        values["contextWindow"] = settings.context_window_tokens
    return values


def _meaning(content: bytes) -> dict[str, JsonValue] | None:
    parsed = parse_json(content)
    document = as_mapping(parsed.unwrap()) if is_successful(parsed) else {}
    if not document:
        return None
    entry = as_mapping(as_mapping(document.get("providers")).get(PROVIDER))
    return {"lastUsedProvider": document.get("lastUsedProvider"), **as_mapping(entry.get("settings"))}


def _encoded(document: JsonValue) -> bytes:
    return json.dumps(document, indent=2).encode()
