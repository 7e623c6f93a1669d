"""What a harness may start and how it may resist: a forced end leaves none of it, and says so."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from clinebox.domain.outcome.model import StoppedBy
from clinebox.domain.receipt import CleanupReceipt

if TYPE_CHECKING:
    from tests.adapters.supervisor.matrix.conftest import Place, Stage

SUBREAPER = r"""perl -e '
  use POSIX; my $prctl = (POSIX::uname())[4] =~ /x86_64/ ? 157 : 167;
  syscall($prctl, 36, 1, 0, 0, 0) == 0 or die; system("(setsid env -i /bin/$ARGV[0] &)");
  open(my $up, ">up"); sleep 86400' "$LONG"
"""
ZOMBIES = r"""perl -e 'for (1..20) { fork or exit } open(my $up, ">up"); sleep 86400' "$LONG" """
FAMILIES = {
    "TERM ignored": ("trap '' TERM; $LONG & touch up; wait; wait; exit 4", 130),
    "INT ignored": ("trap '' INT; $LONG & touch up; wait", 143),
    "INT and TERM ignored": ("trap '' INT TERM; $LONG & touch up; wait; wait; wait", 137),
    "double fork and setsid": ('(setsid bash -c "(setsid $LONG &)" &); touch up; $LONG', 130),
    "marker removed": ("(setsid env -i /bin/$LONG &); touch up; $LONG", 130),
    "marker and limit removed, in the tree": (
        'env -i bash -c "ulimit -S -x unlimited; /bin/$LONG" & touch up; $LONG',
        130,
    ),
    "children of a subreaper": (SUBREAPER, 130),
    "zombies": (ZOMBIES, 130),
    "stopped": ('(setsid bash -c "kill -STOP \\$\\$; $LONG" &); touch up; $LONG', 130),
    "stopped as a whole": ("$LONG & kill -STOP $!; touch up; kill -STOP $$; $LONG", 130),
    "a parent that is always another": ("(setsid bash -c 'f() { (f) & }; f' &); touch up; $LONG", 130),
}


async def stopped(place: Place, script: str, **plan: object) -> CleanupReceipt:
    """Run a script until it made the file `up`, then stop it; nothing is left."""
    running = await place.start(script, **plan)
    await place.made("up")
    (await place.client.request_stop(StoppedBy.CALLER)).unwrap()
    receipt = (await running).receipt
    await place.nothing_is_left()
    return receipt


@pytest.mark.parametrize(("script", "code"), FAMILIES.values(), ids=FAMILIES.keys())
def test_a_forced_end_leaves_nothing_and_says_so(play: Stage, script: str, code: int) -> None:
    receipt = play(lambda place: stopped(place, script, cleanup_timeout_s=1.0))
    assert (receipt.cleanup_confirmed, receipt.error, receipt.survivors) == (True, None, ())
    assert (receipt.stopped_by, receipt.return_code, receipt.notes) == (StoppedBy.CALLER, code, ())
