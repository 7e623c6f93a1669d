"""What a request asks for, from its parsed body."""

from __future__ import annotations

from clinebox.domain.json_value import JsonValue, as_bool, as_list, as_mapping, as_text
from clinebox.domain.model_calls.record import RequestFacts


def read_request(body: JsonValue) -> RequestFacts:
    """The facts of a chat completion's or Responses body; a body that is no object tells nothing.

    >>> read_request({"model": "m", "stream": True, "messages": [{}], "tools": [{}]})
    RequestFacts(model='m', has_tools=True, streamed=True, messages=1)
    """
    if not isinstance(body, dict):
        return RequestFacts()
    members = as_mapping(body)
    items = members.get("messages", members.get("input"))
    return RequestFacts(
        model=as_text(members.get("model")),
        has_tools=bool(as_list(members.get("tools"))),
        streamed=as_bool(members.get("stream")) is True,
        messages=len(items) if isinstance(items, list) else None,
    )
