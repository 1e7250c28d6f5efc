from .arrays import Arrays
from .benchmark_workflows import Chain, ForkJoin
from .burn import Burn
from .bursts import BurstKind, Bursts
from .description import Generator, GeneratorParameter
from .ffmpeg import FFmpeg
from .lublin import Lublin
from .parallel import ParallelTasks
from .poisson import PoissonTasks
from .recipe import Recipe
from .registry import generate, list_generators, make_generator
from .sessions import SessionTasks

__all__ = [
    "Arrays",
    "Burn",
    "BurstKind",
    "Bursts",
    "Chain",
    "FFmpeg",
    "ForkJoin",
    "Generator",
    "GeneratorParameter",
    "Lublin",
    "ParallelTasks",
    "PoissonTasks",
    "Recipe",
    "SessionTasks",
    "generate",
    "list_generators",
    "make_generator",
]
