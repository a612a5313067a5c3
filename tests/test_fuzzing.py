"""Any content of a file gives a result or one sentence. `--hypothesis-profile=fuzzing` tries more."""

import contextlib
import warnings

import pytest
from fuzzing import PARSERS, contents, little_memory
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fabir_tf.pipelines.errors import UserError

SHORT = settings(
    derandomize=True, max_examples=20, database=None, deadline=None, suppress_health_check=list(HealthCheck)
)
CHOSEN = settings.default if settings.get_current_profile_name() == "fuzzing" else SHORT


@pytest.fixture(scope="module", params=PARSERS)
def parsed(request, tmp_path_factory):
    """A parser, its valid file or folder, and the content that is damaged."""
    parser = PARSERS[request.param]
    place = tmp_path_factory.mktemp("fuzzing") / f"valid{parser.ending}"
    if parser.file:
        place.mkdir()
    parser.make(place)
    return parser, place, parser.path(place).read_bytes()


def read(parsed, content):
    """Reads another content, of a part or of the whole; whatever is no UserError is passed on."""
    parser, place, valid = parsed
    parser.path(place).write_bytes(parser.inside(valid, content) if parser.inside else content)
    with little_memory(), warnings.catch_warnings(), contextlib.suppress(UserError):
        warnings.simplefilter("ignore")
        parser.read(place)


def test_the_valid_file_is_read(parsed):
    parser, place, valid = parsed
    parser.path(place).write_bytes(valid)
    parser.read(place)


@CHOSEN
@given(data=st.data())
def test_a_damaged_file_gives_a_result_or_one_sentence(parsed, data):
    parser, _, valid = parsed
    read(parsed, data.draw(contents(parser.part or valid)))
