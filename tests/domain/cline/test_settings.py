"""Cline's settings files as values."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from returns.pipeline import is_successful

from clinebox.domain.cline.settings import (
    ProviderSettings,
    global_settings,
    provider_settings,
    rules_file,
    settings_match,
)

KEY = "sk-very-secret-0123456789"
SETTINGS = ProviderSettings("http://h:1/v1", "m", "session-1", api_key=KEY)
header_text = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1)


def written(settings: ProviderSettings = SETTINGS) -> bytes:
    return provider_settings(settings).unwrap()


def test_the_layout_is_the_measured_one() -> None:
    assert json.loads(written()) == {
        "version": 1,
        "lastUsedProvider": "openai-compatible",
        "modes": {},
        "providers": {
            "openai-compatible": {
                "settings": {
                    "provider": "openai-compatible",
                    "apiKey": KEY,
                    "model": "m",
                    "baseUrl": "http://h:1/v1",
                    "headers": {"x-session-id": "session-1"},
                },
                "updatedAt": "2026-01-01T00:00:00.000Z",
                "tokenSource": "manual",
            }
        },
    }


def test_a_server_without_a_key_is_sent_the_customary_word() -> None:
    settings = json.loads(written(ProviderSettings("http://h/v1", "m", "s", context_window_tokens=20_000)))
    entry = settings["providers"]["openai-compatible"]["settings"]
    assert (entry["apiKey"], entry["contextWindow"]) == ("EMPTY", 20_000)


def test_telemetry_and_updates_are_off_and_tools_are_taken_away_when_asked() -> None:
    assert json.loads(global_settings()) == {"telemetryOptOut": True, "autoUpdateEnabled": False}
    assert json.loads(global_settings(("spawn_agent",)))["disabledTools"] == ["spawn_agent"]


@given(header_text, header_text, st.text(), st.text())
def test_any_values_come_back_from_the_bytes_as_they_were(
    key: str, session: str, model: str, url: str
) -> None:
    """SPEC §10: "Provider settings … read back and compared"."""
    content = written(ProviderSettings(url, model, session, api_key=key))
    entry = json.loads(content)["providers"]["openai-compatible"]["settings"]
    assert (entry["apiKey"], entry["model"], entry["baseUrl"]) == (key, model, url)
    assert is_successful(settings_match(content, content))


@pytest.mark.parametrize("key", ["", " ", "zq zq ", "line\nzq", "tab\tzq", "é", "nul\0", "x" * 8 + "\r"])
def test_a_key_that_no_header_can_carry_is_refused_without_being_quoted(key: str) -> None:
    sentence = provider_settings(ProviderSettings("http://h/v1", "m", "s", api_key=key)).failure()
    assert "HTTP header" in sentence
    assert not key.strip() or key.strip() not in sentence


@pytest.mark.parametrize("session", ["", "a\nb", " x", "\x7f"])
def test_a_session_id_that_no_header_can_carry_is_refused(session: str) -> None:
    assert "session id" in provider_settings(ProviderSettings("http://h/v1", "m", session)).failure()


@pytest.mark.parametrize("tokens", [0, -1])
def test_a_context_window_of_nothing_is_refused(tokens: int) -> None:
    settings = ProviderSettings("http://h/v1", "m", "s", context_window_tokens=tokens)
    assert f"{tokens} tokens" in provider_settings(settings).failure()


def test_the_key_is_not_in_the_repr() -> None:
    assert KEY not in repr(SETTINGS)


def test_what_cline_rewrote_is_still_the_same() -> None:
    document = json.loads(written())
    document["providers"]["openai-compatible"]["updatedAt"] = "2026-11-30T20:45:35.973Z"
    reordered = json.dumps(dict(reversed(document.items())), indent=4).encode() + b"\n"
    assert is_successful(settings_match(written(), reordered))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("apiKey", "another-key"), ("model", "n"), ("baseUrl", "http://elsewhere/v1"), ("provider", "cline"),
        ("headers", {}), ("contextWindow", 5),
    ],
)  # fmt: skip
def test_a_changed_setting_is_named_and_no_value_is_quoted(name: str, value: object) -> None:
    document = json.loads(written())
    document["providers"]["openai-compatible"]["settings"][name] = value
    sentence = settings_match(written(), json.dumps(document).encode()).failure()
    assert sentence == f"Cline's provider settings are not as written: {name} differ"


def test_another_provider_and_a_foreign_setting_are_found() -> None:
    document = json.loads(written())
    document["lastUsedProvider"] = "cline"
    document["providers"]["openai-compatible"]["settings"]["\x1b[31m" + KEY] = 1
    sentence = settings_match(written(), json.dumps(document).encode()).failure()
    assert (
        sentence == "Cline's provider settings are not as written: another setting, lastUsedProvider differ"
    )


@pytest.mark.parametrize("content", [b"", b"null", b"[]", b"{}", b"\xff", b"[" * 100_000, b'{"version":1'])
def test_what_cline_would_take_for_empty_is_found(content: bytes) -> None:
    assert "cannot be read back" in settings_match(written(), content).failure()


@given(st.binary() | st.text().map(str.encode))
def test_any_bytes_match_or_are_a_sentence_without_the_key(content: bytes) -> None:
    """SPEC §6: no key in an error text."""
    sentence = settings_match(written(), content + KEY.encode()).failure()
    assert KEY not in sentence


@given(st.text())
def test_a_system_text_stands_behind_a_front_matter_of_ours(text: str) -> None:
    """A text that starts with `---` would otherwise lose its head, or be left out (3.0.57, 3.0.65)."""
    content = rules_file(text)
    assert content.startswith(b"---\nname: clinebox\n---\n")
    assert content[len(b"---\nname: clinebox\n---\n") : -1] == text.encode("utf-8", "replace")
