"""Which values of an environment are masked, and which are left with a word about it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clinebox.domain.secrets.environment import is_path, secrets_from_environment
from clinebox.domain.secrets.masker import Masker

VALUE = "value-0123456789"


@pytest.mark.parametrize(
    "name",
    [
        "OPENAI_API_KEY",
        "api_key",
        "Hf_Token",
        "CLIENT_SECRET",
        "PGPASSWORD",
        "DB_PASS",
        "AWS_CREDENTIALS",
        "BASIC_AUTH",
        "PRIVATE_PEM",
        "AUTHORIZATION",
        "OAUTH_CLIENT",
        "AUTHOR_TOKEN",
        "GIT_TOKEN",
    ],
)
def test_a_name_that_says_secret_gives_one(name: str) -> None:
    assert secrets_from_environment({name: VALUE, "HOME": "/root"}).values == (VALUE,)


@pytest.mark.parametrize(
    "name",
    [
        "HOME",
        "GIT_AUTHOR_NAME",
        "GIT_AUTHOR_EMAIL",
        "AUTHOR",
        "BOOK_AUTHORS",
        "SSH_AUTH_SOCK",
        "XAUTHORITY",
        "SSH_ASKPASS",
        "GPG_KEY",
        "TOKENIZERS_PARALLELISM",
        "LLM_MAX_OUTPUT_TOKENS",
        "XKB_DEFAULT_KEYBOARD_LAYOUT",
    ],
)
def test_a_harmless_name_gives_none(name: str) -> None:
    assert secrets_from_environment({name: VALUE}).values == ()
    assert secrets_from_environment({name: VALUE}).notes == ()


@pytest.mark.parametrize(
    "value",
    [
        "/run/secrets/key",
        "~/.ssh/id_ed25519",
        "./key.pem",
        "../keys/key.pem",
        "/usr/lib/a:/usr/lib/b",
        "file:///etc/key.pem",
        "C:\\keys\\key.pem",
        "/home/user/Documents/My-Key-2.json",
    ],
)
def test_a_path_is_no_secret(value: str) -> None:
    assert is_path(value)
    assert secrets_from_environment({"KEY_FILE": value}).values == ()


@pytest.mark.parametrize(
    "value", ["/9j4AAQSkZJRgABAQAAAQABAAD", "sk/abcdefgh", "postgres://u:p@h/db", "key-1234\n/etc"]
)
def test_a_key_that_looks_a_little_like_a_path_is_a_secret(value: str) -> None:
    assert secrets_from_environment({"API_KEY": value}).values == (value,)


def test_values_that_cannot_be_masked_are_reported_by_name_and_never_shown() -> None:
    found = secrets_from_environment({"PASSWORD": "hunter2", "AUTH_MODE": "completed", "EMPTY_KEY": " "})
    assert found.values == ()
    assert [note.split(":")[0] for note in found.notes] == ["AUTH_MODE", "PASSWORD"]
    assert "hunter2" not in str(found.notes)
    assert "completed" not in str(found.notes)


def test_the_model_key_is_a_secret_wherever_it_came_from() -> None:
    """It may stand in the configuration literally: then no variable's name covers it."""
    assert secrets_from_environment({}, model_key=VALUE).values == (VALUE,)
    assert secrets_from_environment({}, model_key="/slash/is/no/matter").values == ("/slash/is/no/matter",)
    assert secrets_from_environment({"API_KEY": VALUE}, model_key=VALUE).values == (VALUE,)
    assert secrets_from_environment({}, model_key="short").notes[0].startswith("model key: ")
    assert secrets_from_environment({}, model_key="").values == ()


@given(st.dictionaries(st.text(max_size=12), st.text(max_size=20), max_size=6))
def test_every_value_that_is_returned_is_masked(env: dict[str, str]) -> None:
    found = secrets_from_environment({f"{name}_KEY": value for name, value in env.items()})
    masker = Masker(found.values)
    assert masker.notes == ()
    for value in found.values:
        assert value.strip() not in masker.mask_text(f"<{value}>")
