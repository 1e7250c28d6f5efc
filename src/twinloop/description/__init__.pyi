from .cleaning import Cleaning
from .description import Description, FilePath
from .errors import (
    DamagedTraceError,
    FormatError,
    InputError,
    TwinloopError,
    TwinloopWarning,
)
from .files import SourceFile
from .problems import DescriptionError

__all__ = [
    "Cleaning",
    "DamagedTraceError",
    "Description",
    "DescriptionError",
    "FilePath",
    "FormatError",
    "InputError",
    "SourceFile",
    "TwinloopError",
    "TwinloopWarning",
]
