"""The preflight verdict (SPEC §7): 401 alone refuses, and the sentence says what to rotate."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from clinebox.domain.preflight import (
    Answered,
    CannotAsk,
    ConnectionRefused,
    Observation,
    ProbeBroke,
    Proceed,
    Redirected,
    Refuse,
    TimedOut,
    Unresolved,
    shown_url,
    verdict,
)

KEY = "sk-live-0123456789"
ENDPOINT = "https://models.example/v1/chat/completions"
TEXT = st.text(st.characters(), max_size=40)
OBSERVATIONS: st.SearchStrategy[Observation] = st.one_of(
    st.builds(Answered, st.integers(-1, 1_000)),
    st.builds(Redirected, st.integers(300, 399), TEXT),
    st.builds(TimedOut, st.floats()),
    st.just(ConnectionRefused()),
    st.builds(Unresolved, TEXT),
    st.builds(ProbeBroke, TEXT),
    st.builds(CannotAsk, TEXT),
)


def no_mask(text: str) -> str:
    return text


def judge(observation: Observation, key_variable: str | None = "POLICY_API_KEY") -> Proceed | Refuse:
    return verdict(observation, endpoint=ENDPOINT, model="qwen-3", key_variable=key_variable, mask=no_mask)


@given(OBSERVATIONS, TEXT, TEXT, st.none() | TEXT)
def test_only_a_401_refuses(
    observation: Observation, endpoint: str, model: str, key_variable: str | None
) -> None:
    """SPEC §7: "401 alone refuses to start"; everything else is logged and the start goes on."""
    judged = verdict(observation, endpoint=endpoint, model=model, key_variable=key_variable, mask=no_mask)
    assert isinstance(judged, Refuse) == (observation == Answered(401))
    text = judged.sentence if isinstance(judged, Refuse) else judged.note
    assert text.isprintable()
    assert len(text) < 1_500


def test_the_sentence_of_a_401_names_endpoint_model_and_variable() -> None:
    """SPEC §7: "the sentence names the endpoint, the model and the environment variable to rotate"."""
    assert judge(Answered(401)) == Refuse(
        "The model server rejected the credential (HTTP 401) at https://models.example/v1/chat/completions"
        " for model qwen-3. Rotate the key in the environment variable POLICY_API_KEY, then start again."
    )


def test_a_key_without_a_variable_is_sought_where_it_stands() -> None:
    assert judge(Answered(401), key_variable=None) == Refuse(
        "The model server rejected the credential (HTTP 401) at https://models.example/v1/chat/completions"
        " for model qwen-3. The key stands in the configuration itself: replace it there, then start again."
    )


def test_every_other_observation_has_its_note(snapshot: SnapshotAssertion) -> None:
    seen: list[Observation] = [
        *(Answered(status) for status in (200, 400, 402, 403, 404, 407, 408, 429, 500, 503)),
        Redirected(302, "https://user:hunter2@login.example/start?token=abc"),
        TimedOut(10.0),
        ConnectionRefused(),
        Unresolved("policy_api_key: ${vault:secret} has no resolver here"),
        ProbeBroke("httpx.RemoteProtocolError"),
        CannotAsk("an https address is asked by curl, and the sandbox has none"),
    ]
    assert [judge(observation) for observation in seen] == snapshot


@pytest.mark.parametrize("status", [200, 201, 204, 299])
def test_only_success_is_conclusive(status: int) -> None:
    judged = judge(Answered(status))
    assert isinstance(judged, Proceed)
    assert judged.conclusive


@pytest.mark.parametrize("status", [0, 100, 199, 300, 400, 402, 403, 404, 407, 429, 500, 599])
def test_no_other_status_proves_a_credential(status: int) -> None:
    judged = judge(Answered(status))
    assert isinstance(judged, Proceed)
    assert not judged.conclusive


@given(
    st.sampled_from(
        ["https://{k}@h/v1", "https://u:{k}@h:8000/v1", "http://h/v1?api-key={k}", "http://h/v1#{k}"]
    ),
    OBSERVATIONS | st.builds(Redirected, st.just(302), st.just(f"https://u:{KEY}@x/?key={KEY}")),
)
def test_the_key_is_never_in_it(endpoint: str, observation: Observation) -> None:
    """Brief of SPEC §7: the key is in no sentence, also where the configured URL itself carries it."""
    judged = verdict(
        observation, endpoint=endpoint.format(k=KEY), model="m", key_variable="POLICY_API_KEY", mask=no_mask
    )
    assert KEY not in repr(judged)


@given(st.one_of(st.builds(Redirected, st.just(302), st.just("y" * 290 + KEY)), st.just(Answered(401))))
def test_a_key_inside_a_name_is_masked_before_it_is_cut(observation: Observation) -> None:
    """A key in a path or a model's name is masked, and before anything is cut."""
    judged = verdict(
        observation,
        endpoint=f"http://h/{'x' * 285}{KEY}/v1",
        model="m" * 290 + KEY,
        key_variable="V" * 290 + KEY,
        mask=lambda text: text.replace(KEY, "***"),
    )
    assert KEY[:6] not in repr(judged)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://h.example/v1", "https://h.example/v1"),
        ("https://h.example:8443/v1/chat/completions", "https://h.example:8443/v1/chat/completions"),
        ("http://[::1]:8000/v1", "http://[::1]:8000/v1"),
        ("http://user:pw@[::1]:8000/v1", "http://[::1]:8000/v1"),
        ("https://user:pw@h/v1", "https://h/v1"),
        ("https://token@h/v1", "https://h/v1"),
        ("https://us@er:p@ss@h/v1", "https://h/v1"),
        ("https://user:pa/ss@h/v1", "https://h/v1"),
        ("https://user:pa?ss@h/v1", "https://h/v1?…"),
        ("https://user:pa#ss@h/v1", "https://h/v1?…"),
        ("user:pw@h/v1", "h/v1"),
        ("user:pa://ss@h/v1", "h/v1"),
        ("h/v1", "h/v1"),
        ("https://h:sk-in-the-port/v1", "https://h:…"),
        ("https://h/v1?api-key=abc", "https://h/v1?…"),
        ("https://h?api-key=abc@d", "https://h?…"),
        ("https://h/v1#frag", "https://h/v1?…"),
        ("https://h/ai/run/@cf/meta/llama", "https://h/ai/run/@cf/meta/llama"),
        ("https://h/v1\r\nX-Evil: 1", "https://h/v1 X-Evil: 1"),
        ("https://" + "t" * 5_000 + "@h/v1", "https://h/v1"),
        ("", ""),
        ("https://", "https://"),
        ("://@", "://@"),
    ],
)
def test_a_url_is_shown_without_credentials(url: str, shown: str) -> None:
    assert shown_url(url) == shown


@given(
    st.text(st.characters(codec="ascii", exclude_characters="@/?#"), max_size=10),
    st.from_regex(r"[A-Z0-9]{12}", fullmatch=True),
    st.sampled_from(["h", "h:80", "[::1]:9"]),
)
def test_no_user_part_of_any_spelling_is_shown(user: str, password: str, host: str) -> None:
    """RFC 3986 §3.2.1: the user part ends at the last `@` of the authority."""
    assert shown_url(f"https://{user}{password}@{host}/v1") == f"https://{host}/v1"


@given(TEXT)
def test_any_text_is_shown_on_one_bounded_line(url: str) -> None:
    text = shown_url(url)
    assert text.isprintable()
    assert len(text) <= 302
