"""Expectations: data that should be there."""

from __future__ import annotations

from typing import Annotated

from headgate.core.ledger.expectations.model import LateChunk, Lateness
from headgate.operations.arguments import USUAL, After, Limit
from headgate.operations.declaring import About, Declarations, Page

declared = Declarations("expectations")


@declared.get("/late", "read", answer="The oldest first.")
def late(
    dataset: Annotated[str | None, About("Only chunks of this dataset.", example="orders_raw")] = None,
    after: Annotated[int | None, About("The `next` of the previous page.", ge=1)] = None,
    limit: Limit = USUAL,
) -> Page[LateChunk]:
    """List late chunks: those that are expected, and were not READY in time. Each has the reason, across jobs."""


@declared.get("/expectations", "read", answer="By dataset.", whole=True, cursor="dataset")
def lateness(after: After = None, limit: Limit = USUAL) -> Page[Lateness]:
    """List the datasets with an expectation: how many of their chunks are late, and what is expected next."""
