"""Files of rows that are read in ranges: together they give what the whole file gives."""

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabir_tf.pipelines.datasets import csv_rows, json_rows
from fabir_tf.pipelines.datasets.row_ranges import row_ranges, rows_of_range
from fabir_tf.pipelines.errors import UserError

HEADER = b"id,question,context\n"


def in_ranges(raw, path, rows):
    file = io.BytesIO(raw)
    ranges = list(row_ranges(file, path, rows))
    return ranges, [row for part in ranges for row in rows_of_range(file, part)]


# Lines as a disk may hold them: good ones, blank ones, pieces of JSON, bytes that are not UTF-8.
_JSON_LINE = st.sampled_from(
    [b'{"id": 1, "question": "Who?"}', b'{"a": "\xc3\xa4"}', b"", b"  ", b"[1,", b"\xff\xfe", b"nonsense", b'"\\u2028"']
)


@given(st.lists(_JSON_LINE, max_size=30), st.integers(1, 7), st.booleans(), st.booleans())
def test_json_lines_in_ranges_are_those_of_the_file(lines, rows, has_mark, ends_with_line):
    raw = (b"\xef\xbb\xbf" if has_mark else b"") + b"\n".join(lines) + (b"\n" if ends_with_line else b"")
    expected = list(json_rows.rows_of_lines(json_rows.numbered_lines(io.BytesIO(raw)), "x.jsonl"))
    ranges, found = in_ranges(raw, "x.jsonl", rows)
    assert found == expected
    assert len(ranges) == -(-sum(1 for line in io.BytesIO(raw) if line.strip()) // rows)


_CELL = st.sampled_from(
    ["", "a", '"a,b"', '"a\nb"', '"a\r\nb"', '"a ""quoted"" word"', 'a"b', '"open', "ä", "\udcff", " ", '"x"y']
)
_RECORD = st.lists(_CELL, min_size=1, max_size=4).map(",".join)


@given(
    st.lists(_RECORD, max_size=20),
    st.integers(1, 5),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.sampled_from(
        [
            HEADER,
            b"\n\n" + HEADER,
            b"\xef\xbb\xbf" + HEADER,
            b"sep=,\r\n" + HEADER,
            HEADER + b"\n,,\n",
            b'"id","question\n","context"\r\n',
        ]
    ),
)
def test_csv_in_ranges_is_that_of_the_file(records, rows, end, header):
    raw = header + "".join(record + end for record in records).encode("utf-8", "surrogateescape")
    try:
        expected = list(csv_rows.stream_rows(io.BytesIO(raw), "x.csv"))
    except UserError as error:
        with pytest.raises(UserError) as found:
            in_ranges(raw, "x.csv", rows)
        assert str(found.value) == str(error)
    else:
        assert in_ranges(raw, "x.csv", rows)[1] == expected


def test_files_that_are_read_in_turns_have_no_limit_to_a_cell():
    """Python's limit is one number for the whole process, which must be as before in the end."""
    before = csv.field_size_limit()
    raw = HEADER + "".join(f"{number},Who?,{'a' * (before + 9)}\n" for number in range(3)).encode()
    short, long = (csv_rows.stream_rows(io.BytesIO(part), "x.csv") for part in (raw[: len(raw) // 2], raw))
    rows = [next(short), next(long), *short, *long]
    assert [row.error for row in rows if row.fields and len(row.fields["context"]) > before] == [""] * 4
    assert csv.field_size_limit() == before


def test_a_range_of_csv_ends_where_a_record_ends():
    raw = HEADER + b'1,Who?,"a\nb"\n2,When?,"c\n\nd"\n3,Why?,e\n'
    ranges, _ = in_ranges(raw, "x.csv", 1)
    assert [raw[part.begin : part.end] for part in ranges] == [
        b'1,Who?,"a\nb"\n',
        b'2,When?,"c\n\nd"\n',
        b"3,Why?,e\n",
    ]
    assert [part.before for part in ranges] == [1, 3, 6]


@pytest.mark.parametrize("rows", [1, 2, 3, 7, 100])
def test_parquet_in_ranges_is_that_of_the_file(rows):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    from fabir_tf.pipelines.datasets import parquet_rows

    table = pyarrow.table({"id": [str(number) for number in range(17)], "question": ["Who?"] * 9 + [None] * 8})
    stream = io.BytesIO()
    parquet.write_table(table, stream, row_group_size=5)
    expected = list(parquet_rows.read_rows(stream.getvalue(), "x.parquet", ()))
    ranges, found = in_ranges(stream.getvalue(), "x.parquet", rows)
    assert found == expected
    assert all(part.end - part.begin <= rows for part in ranges)


@pytest.mark.parametrize(
    ("path", "raw", "message"),
    [
        ("x.json", b"[]", "x.json: found the ending '.json', expected JSON lines, CSV with a header, or Parquet"),
        ("x", b"", "x: found the ending 'of no format'"),
        ("x.jsonl", b"\x1f\x8bpacked", "x.jsonl: found gzip, which cannot be read from its middle"),
        ("x.csv", b"", "x.csv: the file is empty, expected CSV with a header"),
        ("x.csv", b"a,b\n1,2\n", "expected a header such as id, context, question"),
        ("x.parquet", b"PAR1nonsense", "expected a Parquet file"),
    ],
)
def test_what_cannot_be_read_in_ranges(path, raw, message):
    with pytest.raises(UserError) as error:
        in_ranges(raw, path, 5)
    assert message in str(error.value)
