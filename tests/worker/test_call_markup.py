"""A worker counts the answers with tools whose content holds a call."""

import asyncio

import pytest
from backedge.base.limits import MAX_SEARCHED_CONTENT
from backedge.worker.metrics import WorkerMetrics

from tests.support import encode as tokens
from tests.worker.test_metrics import WITH_TOOLS, answer, build_worker, exposed, outputs


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("group", [1, 10])
@pytest.mark.parametrize(
    ("output", "counted"),
    [
        ('<tools>[{"name": "get_weather", "arguments": {}}]</tools>', 1),
        ("<function=get_weather>\n</function>", 1),
        ('Sure: [TOOL_CALLS]other{"city": "Oslo"}', 1),
        ("No call at all: <b>the weather</b>, get_weather or [a link](x).", 0),
        ('A "name": "Oslo" and a <function.', 0),
        ("", 0),
        ("x" * MAX_SEARCHED_CONTENT + "[TOOL_CALLS]", 0),
    ],
)
def test_calls_in_content_are_counted_once(stream, group, output, counted):
    given = outputs([*tokens(output), *tokens("<|im_end|>")], group=group)
    for fields, count in ((WITH_TOOLS, counted), ({}, 0)):
        metrics = WorkerMetrics()
        asyncio.run(answer(build_worker(metrics), given, stream=stream, **fields))
        assert exposed(metrics)["call_markup_shown_total none"] == count
