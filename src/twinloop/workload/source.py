"""Who submits the tasks of a workload: a clock, or users who wait for what they have submitted."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from twinloop.trace.trace import Trace
from twinloop.workload.session_graph import SessionGraphs
from twinloop.workload.sessions import Delimitation
from twinloop.workload.workload import Workload


class _Description(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Rigid(_Description):
    """Every task is submitted at its recorded time, whatever happens to the others.

    >>> Rigid()
    Rigid(kind='rigid')
    """

    kind: Literal["rigid"] = "rigid"


class Sessions(_Description):
    """Users submit session by session, and wait for what a session depends on.

    The think times are kept, the submission times follow: see `SessionGraphs`.

    >>> Sessions(threshold=0)
    Sessions(kind='sessions', by='arrival', threshold=0.0)
    """

    kind: Literal["sessions"] = "sessions"
    #: How the gap before a job is counted; see `find_sessions`.
    by: Delimitation = "arrival"
    #: Seconds; a gap of at least that much starts a new session.
    threshold: float = Field(default=3600.0, ge=0, allow_inf_nan=False)

    def graphs(self, log: Trace | Workload) -> SessionGraphs:
        """The session graphs that a replay of this log follows."""
        return SessionGraphs.of(log, by=self.by, threshold=self.threshold)


#: Any description of a source, as it stands in a scenario: `kind` says which.
SourceDescription = Annotated[Rigid | Sessions, Field(discriminator="kind")]
