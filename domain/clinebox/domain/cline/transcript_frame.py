"""One agent's part of the transcript while it is being written: open text, open calls, turns, marks."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from clinebox.domain.cline.events import (
    AgentError,
    Done,
    Hook,
    IterationEnd,
    IterationStart,
    Notice,
    ReasoningDelta,
    ReasoningEnd,
    Record,
    TextDelta,
    TextEnd,
    ToolEnd,
    ToolStart,
    TurnUsage,
)
from clinebox.domain.cline.stream import accumulated
from clinebox.domain.cline.transcript_model import (
    FunctionCall,
    FunctionCallOutput,
    Invocation,
    InvocationStatus,
    Item,
    ItemStatus,
    Mark,
    Message,
    Reasoning,
    Turn,
)


@dataclass(slots=True)
class OpenText:
    """A message whose `content_end` has not come: where it will stand, and the last chunk's raw line."""

    index: int
    last_delta: bytes


@dataclass(slots=True)
class OpenReasoning:
    """Reasoning whose `content_end` has not come; its chunks carry no text so far, so they are kept."""

    index: int
    redacted: bool
    parts: list[str] = field(default_factory=list)


@dataclass(slots=True)
class AgentFrame:
    """Takes one agent's records in order; what is open at `freeze` is `incomplete`."""

    invocation_id: str
    parent_id: str | None = None
    spawned_by: str | None = None
    began: bool = False
    agent_id: str | None = None
    status: InvocationStatus = InvocationStatus.INCOMPLETE
    items: list[Item] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    turn_begins_at: int = 0
    text: OpenText | None = None
    reasoning: OpenReasoning | None = None
    # Ids are the model's and may repeat, so a list; the name belongs to the key for the same reason.
    open_calls: dict[tuple[str, str], list[int]] = field(default_factory=dict)

    def add(self, record: Record, at_ms: int | None) -> None:
        """Take a record other than a tool's start or end."""
        self.began = True
        match record.event:
            case TextDelta(raw):
                self._text_delta(raw, record.line)
            case TextEnd(text):
                self._text_end(text, record.line)
            case ReasoningDelta() as delta:
                self._reasoning_delta(delta, record.line)
            case ReasoningEnd(text):
                self._reasoning_end(text, record.line)
            case _:
                self._add_step(record, at_ms)

    def tool_start(self, start: ToolStart, line: int, at_ms: int | None, child_id: str | None) -> None:
        """A call was made, `incomplete` until its end comes."""
        self.began = True
        self._answered(at_ms)
        self.open_calls.setdefault((start.tool_call_id, start.tool_name), []).append(len(self.items))
        self.items.append(
            FunctionCall(
                call_id=start.tool_call_id,
                name=start.tool_name,
                arguments=start.arguments,
                status=ItemStatus.INCOMPLETE,
                line=line,
                started_ms=at_ms,
                ended_ms=None,
                child_invocation_id=child_id,
            )
        )

    def tool_end(self, end: ToolEnd, line: int, at_ms: int | None) -> None:
        """The end of the innermost open call with this id and name; without one, an output alone."""
        self.began = True
        open_here = self.open_calls.get((end.tool_call_id, end.tool_name))
        index = open_here.pop() if open_here else None
        if index is not None:
            self._complete_call(index, at_ms)
        self.items.append(
            FunctionCallOutput(
                call_id=end.tool_call_id,
                output=end.output,
                error=end.error,
                duration_ms=end.duration_ms,
                line=line,
                call_line=None if index is None else self.items[index].line,
            )
        )

    def freeze(self) -> Invocation:
        """This agent's part so far; the frame stays as it is."""
        return Invocation(
            invocation_id=self.invocation_id,
            parent_invocation_id=self.parent_id,
            spawned_by_call_id=self.spawned_by,
            agent_id=self.agent_id,
            status=self.status,
            items=tuple(self._current(index) for index in range(len(self.items))),
            turns=tuple(self.turns),
            marks=tuple(self.marks),
        )

    def _add_step(self, record: Record, at_ms: int | None) -> None:
        match record.event:
            case IterationStart(iteration):
                self._turn_start(iteration, at_ms)
            case TurnUsage():
                self._answered(at_ms)
            case IterationEnd():
                self._turn_end(at_ms)
            case Notice() as notice:
                self.marks.append(Mark(notice.kind or "notice", notice.message or "", at_ms, record.line))
            case AgentError() as error:
                self._error(error, record.line, at_ms)
            case Done(reason):
                completed = reason == "completed"
                self.status = InvocationStatus.COMPLETED if completed else InvocationStatus.INCOMPLETE
            case Hook("agent_start", agent_id) if self.agent_id is None:
                self.agent_id = agent_id
            case _:
                pass

    def _text_delta(self, raw: bytes, line: int) -> None:
        if self.text is None:
            self.text = OpenText(len(self.items), raw)
            self.items.append(Message("", ItemStatus.INCOMPLETE, line))
        self.text.last_delta = raw

    def _text_end(self, text: str, line: int) -> None:
        if self.text is None:
            self.items.append(Message(text, ItemStatus.COMPLETED, line))
            return
        began = self.items[self.text.index].line
        self.items[self.text.index] = Message(text, ItemStatus.COMPLETED, began)
        self.text = None

    def _reasoning_delta(self, delta: ReasoningDelta, line: int) -> None:
        if self.reasoning is None:
            self.reasoning = OpenReasoning(len(self.items), redacted=False)
            self.items.append(Reasoning("", redacted=False, status=ItemStatus.INCOMPLETE, line=line))
        self.reasoning.parts.append(delta.text)
        self.reasoning.redacted = self.reasoning.redacted or delta.redacted

    def _reasoning_end(self, text: str, line: int) -> None:
        # The end comes after the text's end, but the reasoning keeps the place where it began.
        if self.reasoning is None:
            self.items.append(Reasoning(text, redacted=False, status=ItemStatus.COMPLETED, line=line))
            return
        index, redacted = self.reasoning.index, self.reasoning.redacted
        self.items[index] = Reasoning(text, redacted, ItemStatus.COMPLETED, self.items[index].line)
        self.reasoning = None

    def _turn_start(self, iteration: int | None, at_ms: int | None) -> None:
        self._seal()
        self.turn_begins_at = len(self.items)
        self.turns.append(Turn(iteration, at_ms, None, None))

    def _answered(self, at_ms: int | None) -> None:
        """`usage`, or a tool's start: the model's part of the turn is over; the first of them counts."""
        if self.turns and self.turns[-1].answered_ms is None:
            self.turns[-1] = replace(self.turns[-1], answered_ms=at_ms)

    def _turn_end(self, at_ms: int | None) -> None:
        self._seal()
        self.turn_begins_at = len(self.items)
        if self.turns:
            self.turns[-1] = replace(self.turns[-1], ended_ms=at_ms)

    def _error(self, error: AgentError, line: int, at_ms: int | None) -> None:
        kind = "mistake" if error.recoverable else "error"
        self.marks.append(Mark(kind, error.message or "", at_ms, line))
        if error.recoverable is False:
            self.status = InvocationStatus.FAILED
            self._break_turn()

    def _break_turn(self) -> None:
        """A broken stream still writes `content_end` for its partial text: it is no whole one."""
        self._seal()
        for index in range(self.turn_begins_at, len(self.items)):
            item = self.items[index]
            if isinstance(item, Message | Reasoning):
                self.items[index] = replace(item, status=ItemStatus.INCOMPLETE)
        self.turn_begins_at = len(self.items)

    def _complete_call(self, index: int, at_ms: int | None) -> None:
        call = self.items[index]
        if isinstance(call, FunctionCall):
            self.items[index] = replace(call, status=ItemStatus.COMPLETED, ended_ms=at_ms)

    def _seal(self) -> None:
        """What is open stays `incomplete`, with the text that came."""
        for still_open in (self.text, self.reasoning):
            if still_open is not None:
                self.items[still_open.index] = self._current(still_open.index)
        self.text = None
        self.reasoning = None

    def _current(self, index: int) -> Item:
        item = self.items[index]
        if isinstance(item, Message) and self.text is not None and self.text.index == index:
            return replace(item, text=accumulated(self.text.last_delta))
        if isinstance(item, Reasoning) and self.reasoning is not None and self.reasoning.index == index:
            return replace(item, text="".join(self.reasoning.parts), redacted=self.reasoning.redacted)
        return item
