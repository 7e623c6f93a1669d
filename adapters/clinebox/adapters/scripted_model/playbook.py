"""Which turn answers which request."""

from __future__ import annotations

from dataclasses import dataclass

from clinebox.adapters.scripted_model.script import Fault, Match, Script, Turn
from clinebox.domain.json_value import JsonValue, as_list, as_mapping, as_text


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a turn's `match` looks at."""

    last_message: str
    system: str
    has_tools: bool

    @classmethod
    def of(cls, body: JsonValue) -> Prompt:
        """Read a request's body; what is missing counts as empty."""
        request = as_mapping(body)
        messages = [as_mapping(message) for message in as_list(request.get("messages"))]
        last = [message for message in messages if message.get("role") in ("user", "tool")][-1:]
        system = [message for message in messages if message.get("role") in ("system", "developer")]
        return cls(_text_of(last), _text_of(system), bool(as_list(request.get("tools"))))


def _text_of(messages: list[dict[str, JsonValue]]) -> str:
    """Texts of messages, whether their content is a text or a list of parts."""
    texts: list[str] = []
    for message in messages:
        content = message.get("content")
        parts = [as_mapping(part).get("text") for part in as_list(content)]
        texts += [text for text in (as_text(part) for part in [content, *parts]) if text is not None]
    return "\n".join(texts)


def fits(match: Match | None, prompt: Prompt) -> bool:
    """Whether every condition given holds."""
    return match is None or (
        (match.last_message_contains is None or match.last_message_contains in prompt.last_message)
        and (match.system_contains is None or match.system_contains in prompt.system)
        and (match.has_tools is None or match.has_tools == prompt.has_tools)
    )


class Playbook:
    """The script with a count of plays: the first turn that is not used up and fits, answers."""

    def __init__(self, script: Script) -> None:
        self._turns = script.turns
        self._plays = [0] * len(script.turns)

    def take(self, prompt: Prompt) -> tuple[int, int, Turn] | None:
        """The turn's number (from 1), its play (from 1) and the turn; None when there is none."""
        for place, turn in enumerate(self._turns):
            if turn.fault is not Fault.REFUSE and self._is_left(place) and fits(turn.match, prompt):
                self._plays[place] += 1
                return place + 1, self._plays[place], turn
        return None

    @property
    def refusal(self) -> Turn | None:
        """The `refuse` turn whose time has come: all before it are used up."""
        for place, turn in enumerate(self._turns):
            if self._is_left(place):
                return turn if turn.fault is Fault.REFUSE else None
        return None

    def end_refusal(self) -> None:
        """Use up the `refuse` turn whose time has come, if there is one."""
        if self.refusal is not None:
            self._plays[next(place for place in range(len(self._turns)) if self._is_left(place))] += 1

    def _is_left(self, place: int) -> bool:
        repeat = self._turns[place].repeat
        return repeat < 0 or self._plays[place] < repeat
