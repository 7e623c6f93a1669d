"""A response's body on its way to the client: in order, together, comments between events only."""

from __future__ import annotations

import asyncio

import pytest

from clinebox.adapters.gateway.outlet import COMMENT, Outlet, flowing

PATIENCE_S = 60.0
SEVERAL = 10


async def test_a_comment_never_stands_inside_an_event() -> None:
    """Beside it an outlet between two events, whose comments tell how much time has passed."""
    sent: list[bytes] = []
    told, passed = asyncio.Event(), asyncio.Event()
    comments: list[bytes] = []

    async def send(piece: bytes) -> None:
        sent.append(piece)
        if COMMENT in sent:
            told.set()

    async def count(piece: bytes) -> None:
        comments.append(piece)
        if len(comments) == SEVERAL:
            passed.set()

    async with flowing(Outlet(send, keep_alive_s=0.01)) as outlet:
        await outlet.put(b"data: half")
        async with flowing(Outlet(count, keep_alive_s=0.01)):
            await asyncio.wait_for(passed.wait(), PATIENCE_S)
        assert sent == [b"data: half"]
        await outlet.put(b" of it\n\n")
        await asyncio.wait_for(told.wait(), PATIENCE_S)
    assert b"".join(sent).replace(COMMENT, b"") == b"data: half of it\n\n"


async def test_what_comes_while_a_send_is_under_way_goes_out_together() -> None:
    sent: list[bytes] = []
    free, entered = asyncio.Event(), asyncio.Event()

    async def send(piece: bytes) -> None:
        sent.append(piece)
        entered.set()
        await free.wait()

    async with flowing(Outlet(send)) as outlet:
        await outlet.put(b"a")
        await entered.wait()
        for piece in (b"b", b"c", b"d"):
            await outlet.put(piece)
        assert outlet.is_behind
        free.set()
    assert sent == [b"a", b"bcd"]


async def test_an_outlet_that_cannot_send_ends_the_body_with_its_error() -> None:
    async def send(_: bytes) -> None:
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        async with flowing(Outlet(send)) as outlet:
            await outlet.put(b"a")


async def test_what_is_held_is_sent_before_the_error_of_the_body() -> None:
    sent: list[bytes] = []

    async def send(piece: bytes) -> None:
        await asyncio.sleep(0)
        sent.append(piece)

    async def body() -> None:
        async with flowing(Outlet(send)) as outlet:
            await outlet.put(b"a")
            await outlet.put(b"b")
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        await body()
    assert b"".join(sent) == b"ab"
