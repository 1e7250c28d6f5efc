from .arrays import Arrays
from .burn import Burn
from .bursts import BurstKind, Bursts
from .description import Generator, GeneratorParameter
from .ffmpeg import FFmpeg
from .lublin import Lublin
from .parallel import ParallelTasks
from .poisson import PoissonTasks
from .registry import generate, list_generators, make_generator
from .sessions import SessionTasks

__all__ = [
    "Arrays",
    "Burn",
    "BurstKind",
    "Bursts",
    "FFmpeg",
    "Generator",
    "GeneratorParameter",
    "Lublin",
    "ParallelTasks",
    "PoissonTasks",
    "SessionTasks",
    "generate",
    "list_generators",
    "make_generator",
]
