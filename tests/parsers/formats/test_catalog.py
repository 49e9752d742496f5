from __future__ import annotations

import importlib
import pkgutil

from backedge.parsers import formats
from backedge.parsers.format import Format
from backedge.parsers.formats.catalog import FORMATS
from backedge.parsers.parser_lookup import index_by_name


def test_every_format_of_every_module_is_listed():
    found = {
        value.name
        for module in pkgutil.iter_modules(formats.__path__)
        for value in vars(importlib.import_module(f"{formats.__name__}.{module.name}")).values()
        if isinstance(value, Format)
    }
    assert [format_.name for format_ in FORMATS] == sorted(found)


def test_no_name_stands_for_two_formats():
    index = index_by_name(FORMATS)
    assert {format_.name for format_ in FORMATS} <= index.keys()


def test_every_format_says_where_it_is_from():
    assert all(format_.source for format_ in FORMATS)


def test_every_format_has_something_to_parse():
    assert all(format_.parses_tools or format_.parses_reasoning for format_ in FORMATS)
