"""Who submits the tasks of a workload: a clock, or users who wait for what they have submitted."""

from __future__ import annotations

from typing import Any, Final

from pydantic import Field, SerializationInfo, SerializerFunctionWrapHandler, model_serializer

from twinloop.description import Description
from twinloop.description.description import WriteContext
from twinloop.description.errors import InputError
from twinloop.description.quantities import Seconds
from twinloop.trace.trace import Trace
from twinloop.workload.session_graph import SessionGraphs
from twinloop.workload.sessions import Delimitation
from twinloop.workload.workload import Workload

#: What stands before the threshold where a text is short for users with sessions.
SESSIONS_PREFIX: Final = "sessions:"


class Sessions(Description):
    """Users submit session by session: a session waits for those that its user waited for.

    The think times are kept, the submission times follow: see `SessionGraphs`.

    >>> Sessions(threshold="60min")
    Sessions(by='arrival', threshold=3600.0)
    """

    by: Delimitation = Field(
        "arrival",
        description="what the pause before a session is counted from: the submission of the job "
        "before (arrival), its end (last), the latest end in the session (max)",
    )
    threshold: Seconds = Field(description="a pause this long starts a new session (s)")

    def graphs(self, log: Trace | Workload) -> SessionGraphs:
        """The session graphs that a replay of this log follows."""
        return SessionGraphs.from_log(log, by=self.by, threshold=self.threshold)


class SourceDescription(Description):
    """Who submits: `rigid`, every task at its recorded time, or users with sessions.

    >>> SourceDescription.from_dict("rigid") == SourceDescription()
    True
    >>> SourceDescription.from_dict("sessions:60min").sessions
    Sessions(by='arrival', threshold=3600.0)
    """

    sessions: Sessions | None = Field(
        None, description="users with sessions; without, tasks are submitted as recorded (rigid)"
    )

    @classmethod
    def _long_form(cls, data: Any) -> Any:
        if isinstance(data, Sessions):
            return {"sessions": data}
        if not isinstance(data, str):
            return data
        threshold = data.removeprefix(SESSIONS_PREFIX).strip()
        if data.startswith(SESSIONS_PREFIX) and threshold:
            return {"sessions": {"threshold": threshold}}
        if data != "rigid":
            raise InputError(
                f"'{data}' is no source",
                remedy="rigid, or sessions:SECONDS such as sessions:3600",
            )
        return {}

    @model_serializer(mode="wrap")
    def _short_form(self, handler: SerializerFunctionWrapHandler, info: SerializationInfo) -> Any:
        values = handler(self)
        return values or "rigid" if isinstance(info.context, WriteContext) else values
