"""How a preview's streams end."""

import asyncio

import pytest

from greenroom.errors import PreviewClosed
from greenroom.preview.streams import CleanEnd, Closing, ended_by_etcd, until_one_ends


async def lasts() -> None:
    await asyncio.Event().wait()


async def fails(error: Exception) -> None:
    raise error


async def returns() -> None:
    return


async def test_the_first_error_ends_all_and_comes_out_alone() -> None:
    with pytest.raises(ValueError, match="no"):
        await until_one_ends(lasts(), fails(ValueError("no")), lasts())


async def test_a_loop_that_returns_ends_itself_and_a_clean_end_is_none() -> None:
    """A client that half-closes its requests goes on to be answered."""
    await until_one_ends(returns(), lasts(), fails(CleanEnd()))


async def test_a_preview_that_closes_ends_its_streams_also_those_that_come_late() -> None:
    closing = Closing()
    early = asyncio.ensure_future(until_one_ends(lasts(), closing.raises()))
    await asyncio.sleep(0)
    closing.begin("first words")
    closing.begin("others")
    for stream in (early, until_one_ends(lasts(), closing.raises())):
        with pytest.raises(PreviewClosed, match="first words"):
            await stream


def test_an_end_of_etcds_is_an_error() -> None:
    assert "etcd ended the stream" in str(ended_by_etcd())
