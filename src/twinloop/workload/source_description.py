"""The source of submissions in a scenario: recorded times, users with sessions, or a class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import (
    BeforeValidator,
    Field,
    SerializationInfo,
    SerializerFunctionWrapHandler,
    WithJsonSchema,
    field_validator,
    model_serializer,
    model_validator,
)
from pydantic.json_schema import SkipJsonSchema

from twinloop.description import Description
from twinloop.description.class_registry import make_unknown_option_error
from twinloop.description.description import WriteContext
from twinloop.description.errors import InputError
from twinloop.description.object_field import check_object
from twinloop.description.plugins import CODE_PATTERN, list_plugins
from twinloop.description.position import locate_errors
from twinloop.description.problems import ProblemCollector
from twinloop.description.quantities import Name, Seconds
from twinloop.trace.trace import Trace
from twinloop.workload.delimitation import Delimitation
from twinloop.workload.source_registry import (
    BUILT_IN_SOURCES,
    SOURCE_GROUP,
    check_source_name,
    resolve_source,
)
from twinloop.workload.workload import Workload

if TYPE_CHECKING:
    from twinloop.workload.session_graph import SessionGraphs
    from twinloop.workload.source import Source

#: Prefix of the short form `sessions:THRESHOLD`.
SESSIONS_PREFIX: Final = "sessions:"
#: JSON schema of the name of a source in Python.
NAMED_SCHEMA: Final[dict[str, Any]] = {"pattern": f"^{CODE_PATTERN.pattern}$"}


# The interface of sources in Python is imported for an object that may be one, not for built-in
# ones.
def _check_source(value: Any) -> Any:
    from twinloop.workload.source import Source

    return check_object(value, Source, "a Source")


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
        from twinloop.workload.session_graph import SessionGraphs

        return SessionGraphs.from_log(log, by=self.by, threshold=self.threshold)


class SourceDescription(Description):
    """The source of submissions: `rigid` (recorded times), users with sessions, or a class.

    `module:Class` names a Python class; it needs permission to run (`allow_code`). In memory it
    may be a source object; a file cannot contain a source written in Python.

    >>> SourceDescription.from_dict("rigid") == SourceDescription()
    True
    >>> SourceDescription.from_dict("sessions:60min").sessions
    Sessions(by='arrival', threshold=3600.0)
    >>> SourceDescription.from_dict("my.users:Mine").name
    'my.users:Mine'
    """

    sessions: Sessions | None = Field(
        None, description="users with sessions; by default none: recorded submission times (rigid)"
    )
    name: Annotated[
        Name | None,
        WithJsonSchema({"anyOf": [{"type": "string", **NAMED_SCHEMA}, {"type": "null"}]}),
    ] = Field(None, description="name of the source of a plug-in, or module:Class")
    options: dict[str, Any] = Field(
        {}, description="options of the named source; the others have their defaults"
    )
    object: Annotated[Any, BeforeValidator(_check_source), SkipJsonSchema()] = Field(
        None, exclude=True, description="the Source itself, in memory only"
    )

    @classmethod
    def _long_form(cls, data: Any) -> Any:
        if isinstance(data, Sessions):
            return {"sessions": data}
        if isinstance(data, Mapping):
            return _read_built_in(data)
        if not isinstance(data, str):
            return _read_object(data)
        threshold = data.removeprefix(SESSIONS_PREFIX).strip()
        if data.startswith(SESSIONS_PREFIX) and threshold:
            return {"sessions": {"threshold": threshold}}
        if data == "rigid":
            return {}
        if not CODE_PATTERN.fullmatch(data) and data not in list_plugins(SOURCE_GROUP):
            raise InputError(
                f"'{data}' is not a source",
                kind="not-a-choice",
                remedy="use rigid, sessions:SECONDS such as sessions:3600, or module:Class",
            )
        return {"name": data}

    @field_validator("name", mode="after")
    @classmethod
    def _check_name(cls, name: str | None) -> str | None:
        if name is not None:
            check_source_name(name)
        return name

    @model_validator(mode="after")
    def _check_options(self) -> SourceDescription:
        findings = ProblemCollector()
        if self.name is None and self.options:
            findings.add(("options",), "has no effect without a name", kind="no-effect")
        if self.name in BUILT_IN_SOURCES:
            for key in self.options:
                error = make_unknown_option_error(self.name, key, [])
                findings.add_error(("options", key), error)
        if self.name is not None and self.sessions is not None:
            findings.add(
                ("sessions",),
                "cannot be combined with 'name'",
                "keep one of them",
                kind="conflicting-fields",
            )
        name = self.name
        is_checked = self.object is not None or name in BUILT_IN_SOURCES
        if name is not None and not is_checked and not CODE_PATTERN.fullmatch(name):
            findings.add_errors_of(lambda: resolve_source(name, self.options))
        findings.check()
        return self

    @model_serializer(mode="wrap")
    def _short_form(self, handler: SerializerFunctionWrapHandler, info: SerializationInfo) -> Any:
        values = handler(self)
        if self.object is not None:
            return {"name": self.name, "object": self.object_summary}
        if not isinstance(info.context, WriteContext):
            return values
        return values["name"] if list(values) == ["name"] else values or "rigid"

    @property
    def object_summary(self) -> str | None:
        """A summary of the object in memory; None if there is none."""
        return None if self.object is None else f"Source {self.name}"

    @property
    def title(self) -> str:
        """The name of the source: `rigid`, `sessions`, or that of its class.

        >>> SourceDescription.from_dict("sessions:60min").title
        'sessions'
        """
        return self.name or ("rigid" if self.sessions is None else "sessions")

    def resolve(self, *, allow_code: bool = False) -> Source | None:
        """Create the source in Python, `module:Class` only if code is allowed.

        None if it is a built-in source.
        """
        if self.object is not None:
            source: Source = self.object
            return source
        if self.name is None:
            return None
        with locate_errors(self._position):
            return resolve_source(self.name, self.options, allow_code)


def _read_object(data: Any) -> Any:
    """Read a Source in memory; other data is returned unchanged."""
    if data is None or isinstance(data, Description):
        return data
    from twinloop.workload.source import Source

    return {"name": data.name, "object": data} if isinstance(data, Source) else data


def _read_built_in(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Read `name: rigid` and `name: sessions` with options as these sources."""
    if "object" in data or data.get("name") not in BUILT_IN_SOURCES:
        return data
    others = {key: value for key, value in data.items() if key not in ("name", "options")}
    options = data.get("options") or {}
    if data["name"] == "sessions":
        return {"sessions": options, **others}
    # With options, the name stays for their error: this source has none.
    return data if options else others
