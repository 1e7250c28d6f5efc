"""The source of submissions: recorded times, or users with sessions."""

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

#: Prefix of the short form `sessions:THRESHOLD`.
SESSIONS_PREFIX: Final = "sessions:"


class Sessions(Description):
    """Users with sessions: a session starts after the sessions that it depends on have finished.

    Think times are as recorded, submission times follow from them: see `SessionGraphs`.

    >>> Sessions(threshold="60min")
    Sessions(by='arrival', threshold=3600.0)
    """

    by: Delimitation = Field(
        "arrival",
        description="start of the pause before a job: the submission of the job before (arrival), "
        "its end (last), or the latest end in the session (max)",
    )
    threshold: Seconds = Field(description="minimum pause between two sessions (s)")

    def graphs(self, log: Trace | Workload) -> SessionGraphs:
        """Create the session graphs of a log."""
        return SessionGraphs.from_log(log, by=self.by, threshold=self.threshold)


class SourceDescription(Description):
    """The source of submissions: `rigid` (recorded times) or users with sessions.

    >>> SourceDescription.from_dict("rigid") == SourceDescription()
    True
    >>> SourceDescription.from_dict("sessions:60min").sessions
    Sessions(by='arrival', threshold=3600.0)
    """

    sessions: Sessions | None = Field(
        None, description="users with sessions; by default none: recorded submission times (rigid)"
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
                f"'{data}' is not a source",
                kind="not-a-choice",
                remedy="use rigid, or sessions:SECONDS such as sessions:3600",
            )
        return {}

    @model_serializer(mode="wrap")
    def _short_form(self, handler: SerializerFunctionWrapHandler, info: SerializationInfo) -> Any:
        values = handler(self)
        return values or "rigid" if isinstance(info.context, WriteContext) else values
