"""Where (X, Y) comes from, always in blocks; what it looks like; what is kept for testing."""

from gradine.examples.batches import IteratorExamples, from_batches
from gradine.examples.errors import BadBlock, BlockError
from gradine.examples.first import FirstExamples
from gradine.examples.fitting import FittingData, add_each, append_constant
from gradine.examples.generated import GeneratedExamples
from gradine.examples.opening import open_examples
from gradine.examples.sound import without_bad_blocks
from gradine.examples.source import ArrayExamples, Examples, FolderExamples, NpzExamples
from gradine.examples.split import MOST_CERTIFY, Split, held_out_sizes, make_split, take
from gradine.examples.survey import Survey, survey
from gradine.examples.zarr_store import ZarrExamples, write_zarr

__all__ = [
    "MOST_CERTIFY",
    "ArrayExamples",
    "BadBlock",
    "BlockError",
    "Examples",
    "FirstExamples",
    "FittingData",
    "FolderExamples",
    "GeneratedExamples",
    "IteratorExamples",
    "NpzExamples",
    "Split",
    "Survey",
    "ZarrExamples",
    "add_each",
    "append_constant",
    "from_batches",
    "held_out_sizes",
    "make_split",
    "open_examples",
    "survey",
    "take",
    "without_bad_blocks",
    "write_zarr",
]
