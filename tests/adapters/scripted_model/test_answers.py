"""What a client reads when nothing goes wrong."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clinebox.adapters.scripted_model import (
    Comments,
    Framing,
    Match,
    RunningScriptedModel,
    Script,
    ToolCall,
    Turn,
    Usage,
    running_scripted_model,
)


def answer(client: Any, turn: Turn, **changes: Any) -> Any:
    """The answer of a server whose script is this one turn."""
    with running_scripted_model(Script(turns=(turn,))) as server:
        return client.ask(server, **changes)


def test_a_text_comes_in_chunks_between_the_role_and_the_finish_reason(client: Any) -> None:
    got = answer(client, Turn(text="Hello, world", chunk_size=5))
    assert got.status == 200
    assert got.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert got.deltas == [
        {"role": "assistant", "content": ""},
        {"content": "Hello"},
        {"content": ", wor"},
        {"content": "ld"},
        {},
    ]
    assert got.finish_reasons == ["stop"]
    assert got.data[-1] == "[DONE]"


def test_every_chunk_carries_the_same_id_the_requested_model_and_the_object_name(client: Any) -> None:
    got = answer(client, Turn(text="Hello, world", chunk_size=5))
    assert {(chunk["id"], chunk["object"], chunk["model"]) for chunk in got.chunks} == {
        ("chatcmpl-scripted-1-1", "chat.completion.chunk", "some-model")
    }


def test_a_list_of_texts_is_sent_one_a_chunk(client: Any) -> None:
    got = answer(client, Turn(text=("a", "", "bcd")))
    assert [delta.get("content") for delta in got.deltas[1:-1]] == ["a", "", "bcd"]


def test_reasoning_comes_before_the_text_under_the_key_that_the_script_names(client: Any) -> None:
    got = answer(client, Turn(reasoning="Let me think.", text="Done.", reasoning_field="reasoning"))
    assert got.joined("reasoning") == "Let me think."
    assert [sorted(delta) for delta in got.deltas] == [["content", "role"], ["reasoning"], ["content"], []]
    assert answer(client, Turn(reasoning="Hm.")).joined("reasoning_content") == "Hm."


def test_several_tool_calls_come_in_pieces_with_index_id_and_name(client: Any) -> None:
    first = ToolCall(name="read_files", arguments={"files": [{"path": "a.txt"}]})
    second = ToolCall(name="run_commands", arguments={"commands": ["ls"]}, id="mine")
    got = answer(client, Turn(tool_calls=(first, second), chunk_size=4))
    assert got.tool_calls == [
        ("call_1_1", "read_files", '{"files": [{"path": "a.txt"}]}'),
        ("mine", "run_commands", '{"commands": ["ls"]}'),
    ]
    assert got.finish_reasons == ["tool_calls"]
    assert len([delta for delta in got.deltas if "tool_calls" in delta]) > 4


def test_malformed_arguments_are_sent_as_they_stand(client: Any) -> None:
    got = answer(client, Turn(tool_calls=(ToolCall(name="run_commands", arguments='{"commands": ["ec'),)))
    assert got.tool_calls == [("call_1_1", "run_commands", '{"commands": ["ec')]


def test_usage_is_the_last_chunk_and_has_cached_and_reasoning_tokens(client: Any) -> None:
    usage = Usage(prompt_tokens=1000, completion_tokens=50, cached_tokens=600, reasoning_tokens=30)
    got = answer(client, Turn(text="x", usage=usage))
    assert got.chunks[-1]["choices"] == []
    assert got.usages == [
        {
            "prompt_tokens": 1000,
            "completion_tokens": 50,
            "total_tokens": 1050,
            "prompt_tokens_details": {"cached_tokens": 600},
            "completion_tokens_details": {"reasoning_tokens": 30},
        }
    ]


def test_details_of_usage_that_the_script_leaves_out_are_not_sent(client: Any) -> None:
    got = answer(client, Turn(text="x"))
    assert got.usages == [{"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}]


@pytest.mark.parametrize(
    "turn", [Turn(text="x", usage=None), Turn(text="x", usage=None, usage_every_chunk=True)]
)
def test_a_server_without_usage_sends_none(client: Any, turn: Turn) -> None:
    assert answer(client, turn).usages == []


def test_usage_is_not_sent_to_a_client_that_did_not_ask(client: Any) -> None:
    assert answer(client, Turn(text="x"), stream_options={}).usages == []


def test_usage_in_every_chunk_is_a_running_total(client: Any) -> None:
    got = answer(client, Turn(text="abcd", chunk_size=1, usage_every_chunk=True), stream_options=None)
    assert [usage["completion_tokens"] for usage in got.usages] == [0, 2, 5, 7, 10, 10, 10]
    assert len(got.usages) == len(got.chunks)


@pytest.mark.parametrize("reason", ["length", "content_filter", "abort", "banana"])
def test_any_finish_reason_can_be_sent(client: Any, reason: str) -> None:
    assert answer(client, Turn(text="x", finish_reason=reason)).finish_reasons == [reason]


def test_no_finish_reason_and_no_done_line_are_sent_when_the_script_says_so(client: Any) -> None:
    got = answer(client, Turn(text="x", finish_reason=None, done=False, usage=None))
    assert got.finish_reasons == []
    assert got.data[-1] != "[DONE]"
    assert got.error is None


def test_comments_come_before_the_first_chunk(client: Any) -> None:
    got = answer(client, Turn(text="x", comments=Comments(count=3)))
    assert got.raw.startswith(b": keep-alive\n\n" * 3 + b"data: {")


def test_lines_may_end_in_crlf_and_have_no_space_after_the_colon(client: Any) -> None:
    got = answer(client, Turn(text="x", crlf=True, data_space=False))
    assert got.raw.count(b"\r\n") == got.raw.count(b"\n")
    assert b'data:{"id"' in got.raw
    assert got.raw.endswith(b"data:[DONE]\r\n\r\n")


def test_writes_can_cut_a_stream_inside_a_character(raw: Any) -> None:
    with running_scripted_model(Script(turns=(Turn(text="ö", write_bytes=1),))) as server:
        data, _ = raw.ask(server)
    assert b"1\r\n\xc3\r\n1\r\n\xb6\r\n" in data


def test_a_stream_framed_by_close_has_no_chunk_sizes(raw: Any) -> None:
    with running_scripted_model(Script(turns=(Turn(text="x", framing=Framing.CLOSE),))) as server:
        data, ending = raw.ask(server, raw.request())
    head, _, body = data.partition(b"\r\n\r\n")
    assert b"transfer-encoding" not in head
    assert b"connection: close" in head
    assert body.startswith(b'data: {"id"')
    assert (body.endswith(b"data: [DONE]\n\n"), ending) == (True, "fin")


def test_a_request_without_stream_gets_one_json_object(client: Any) -> None:
    turn = Turn(text=("He", "llo"), reasoning="Hm.", tool_calls=(ToolCall(name="t", arguments={"a": "ö"}),))
    got = answer(client, turn, stream=False)
    completion = json.loads(got.raw)
    assert got.headers["content-type"] == "application/json"
    assert completion["object"] == "chat.completion"
    assert completion["usage"]["total_tokens"] == 110
    assert completion["choices"] == [
        {
            "index": 0,
            "message": {
                "role": "assistant",
                "content": "Hello",
                "reasoning_content": "Hm.",
                "tool_calls": [
                    {
                        "id": "call_1_1",
                        "type": "function",
                        "function": {"name": "t", "arguments": '{"a": "ö"}'},
                    }
                ],
            },
            "finish_reason": "tool_calls",
        }
    ]


def test_turns_are_played_in_order_and_repeated_as_often_as_they_say(client: Any) -> None:
    script = Script(turns=(Turn(text="one"), Turn(text="two", repeat=2), Turn(text="three", repeat=-1)))
    with running_scripted_model(script) as server:
        texts = [client.ask(server).joined("content") for _ in range(6)]
    assert texts == ["one", "two", "two", "three", "three", "three"]


def test_a_repeated_tool_call_has_another_id_each_time(client: Any) -> None:
    script = Script(turns=(Turn(tool_calls=(ToolCall(name="t"),), repeat=-1),))
    with running_scripted_model(script) as server:
        ids = [client.ask(server).tool_calls[0][0] for _ in range(3)]
    assert ids == ["call_1_1", "call_1_1_2", "call_1_1_3"]


@pytest.mark.parametrize("stream", [True, False])
def test_after_the_last_turn_a_request_is_told_so_with_status_400(client: Any, *, stream: bool) -> None:
    with running_scripted_model(Script(turns=(Turn(text="one"),))) as server:
        client.ask(server)
        got = client.ask(server, stream=stream)
    assert (got.status, json.loads(got.raw)["error"]["message"]) == (
        400,
        "the script has no turn for request 2: all turns are used up or match others",
    )


def test_variables_are_replaced_in_texts_and_arguments_and_other_dollars_stay() -> None:
    call = ToolCall(
        name="run_commands", arguments={"commands": ["cd ${workdir}; echo ${HOME} $workdir ${x}"]}
    )
    script = Script(turns=(Turn(text=("in ${workdir}",), tool_calls=(call,), finish_reason=None),))
    replaced = script.with_variables({"workdir": "/w", "x": "${workdir}"}).turns[0]
    assert replaced.text == ("in /w",)
    assert replaced.tool_calls[0].arguments == {"commands": ["cd /w; echo ${HOME} $workdir ${workdir}"]}
    assert replaced.finish is None


def test_variables_given_to_the_server_reach_the_client(client: Any) -> None:
    script = Script(turns=(Turn(text="in ${workdir}"),))
    with running_scripted_model(script, variables={"workdir": "/some/where"}) as server:
        assert client.ask(server).joined("content") == "in /some/where"


def ask_about(
    client: Any, server: RunningScriptedModel, system: str, last: Any, *, tools: bool = True
) -> str:
    messages = [
        {"role": "system", "content": system},
        {"role": "user", "content": "first"},
        {"role": "assistant", "content": "needle"},
        {"role": "tool", "tool_call_id": "x", "content": last},
    ]
    offered = [{"type": "function", "function": {"name": "t"}}] if tools else []
    text: str = client.ask(server, messages=messages, tools=offered).joined("content")
    return text


def test_a_turn_that_matches_is_kept_for_its_requests(client: Any) -> None:
    script = Script(
        turns=(
            Turn(text="compacted", match=Match(has_tools=False), repeat=-1),
            Turn(text="sub", match=Match(system_contains="SUB-1"), repeat=-1),
            Turn(text="seen", match=Match(last_message_contains="needle", system_contains="parent")),
            Turn(text="other", repeat=-1),
        )
    )
    with running_scripted_model(script) as server:
        assert ask_about(client, server, "parent", "nothing") == "other"
        assert ask_about(client, server, "You are SUB-1", "needle") == "sub"
        assert ask_about(client, server, "parent", "x", tools=False) == "compacted"
        assert ask_about(client, server, "parent", [{"type": "text", "text": "a needle"}]) == "seen"
        assert ask_about(client, server, "parent", "needle") == "other"


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    text=st.text(max_size=60),
    arguments=st.text(max_size=60),
    chunk_size=st.integers(1, 20),
    write_bytes=st.none() | st.integers(1, 40),
    crlf=st.booleans(),
)
def test_what_is_cut_in_any_way_is_put_together_again(
    client: Any, *, text: str, arguments: str, chunk_size: int, write_bytes: int | None, crlf: bool
) -> None:
    """ "text in any chunks is reassembled equal": chunking never changes what the model said."""
    turn = Turn(
        text=text,
        tool_calls=(ToolCall(name="t", arguments=arguments),),
        chunk_size=chunk_size,
        write_bytes=write_bytes,
        crlf=crlf,
    )
    got = answer(client, turn)
    assert got.joined("content") == text
    assert got.tool_calls == [("call_1_1", "t", arguments)]


def test_the_models_route_names_the_model(client: Any) -> None:
    with running_scripted_model(Script(turns=(Turn(),)), model="tiny") as server:
        models = client.get(server.base_url + "/models").json()
    assert [model["id"] for model in models["data"]] == ["tiny"]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/chat/completions"),
        ("POST", "/v1/models"),
        ("POST", "/chat/completions"),
        ("POST", "/v1/x"),
    ],
)
def test_other_routes_are_404_and_use_up_no_turn(client: Any, method: str, path: str) -> None:
    with running_scripted_model(Script(turns=(Turn(text="still here"),))) as server:
        got = httpx.request(method, f"http://127.0.0.1:{server.port}{path}", json={}, trust_env=False)
        assert (got.status_code, got.json()["error"]["code"]) == (404, "not_found")
        assert client.ask(server).joined("content") == "still here"


@pytest.mark.parametrize("headers", [{}, {"authorization": "Bearer wrong"}, {"authorization": "right"}])
def test_another_key_gets_401_and_uses_up_no_turn(client: Any, headers: dict[str, str]) -> None:
    with running_scripted_model(Script(turns=(Turn(text="x"),)), require_key="right") as server:
        assert client.ask(server, headers=headers).status == 401
        assert client.ask(server, headers={"authorization": "Bearer right"}).joined("content") == "x"


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff", b"[" * 100_000])
def test_a_body_that_is_no_json_object_gets_400_and_uses_up_no_turn(client: Any, body: bytes) -> None:
    with running_scripted_model(Script(turns=(Turn(text="x"),))) as server:
        got = httpx.post(server.base_url + "/chat/completions", content=body, trust_env=False)
        assert (got.status_code, got.json()["error"]["code"]) == (400, "bad_request")
        assert client.ask(server).joined("content") == "x"
