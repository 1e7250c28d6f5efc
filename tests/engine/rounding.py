"""Programs whose outcome hangs on rounding: exact numbers cannot say what the kernel should do.

What is left of an activity when its capacity vanishes may be nothing in one simulation and 1e-17 in
the other, which then waits for the next capacity. No tolerance decides that.
"""

from __future__ import annotations

from fractions import Fraction

from .programs import Operation, Program, Session
from .reference import Activity, Stalled, World

# A figure in float64 is off by at most 2^-53 of itself each time it is rounded; that a program of
# some 60 operations rounds one 500 times is a fair bound.
ROUNDING = Fraction(1, 2**44)


class Watched(World):
    """A reference that notices who was within rounding of its end when its speed fell."""

    def __init__(self, sharing: str) -> None:
        super().__init__(sharing=sharing)
        self.hung = False
        # What rounding may leave of each, and until when it may still be there.
        self.ending: dict[Activity, tuple[Fraction, Fraction]] = {}

    def _advance(self, time: Fraction) -> None:
        speeds = self.speeds(self.rates())
        if time > self.now:
            self.judge()
        super()._advance(time)
        for a, speed in speeds.items():
            # Of its work a part is lost to rounding, and of the time until which it is done.
            doubt = ROUNDING * (a.done + a.remaining + speed * max(1, time))
            if speed > 0 and a.remaining <= doubt:
                self.ending[a] = doubt, time + doubt / speed

    def judge(self, tolerance: Fraction = Fraction(1, 10**9)) -> None:
        """Look at this instant, with all that happens in it done."""
        for a, (doubt, until) in self.ending.items():
            if self.now > until:
                continue
            phase, a.phase = a.phase, "running"  # as if it had not ended by a hair
            speed = self.speeds(self.rates()).get(a, Fraction(0))
            a.phase = phase
            self.hung |= speed * tolerance * max(1, self.now) < doubt


def hangs_on_rounding(program: Program, played: list[Operation]) -> bool:
    """Whether an activity is left behind by a hair in the operations of `program` played so far."""
    world = Watched(program.sharing)
    session = Session(world, program, Stalled)
    for operation in played:
        session.apply(operation)
    world.judge()
    return world.hung
