"""Events as they happen."""

from __future__ import annotations

from typing import Annotated

from headgate.operations.declaring import About, Declarations, Stream

declared = Declarations("events", "history")


@declared.get("/events", "read", answer="An event stream.")
def follow(
    last: Annotated[str | None, About("The id of the last event that was received.", header="Last-Event-ID")] = None,
) -> Stream:
    """Stream history entries as they are written, one per event. With `Last-Event-ID`, continue after that event.

    The stream ends when its API token is revoked or expires, and for a browser when it signs out.
    """
