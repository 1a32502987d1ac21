"""The bare framework: a JSON echo on the same server, with nothing of ours. Run with a port."""

from __future__ import annotations

import sys
from typing import Any

import uvicorn
from fastapi import FastAPI

app = FastAPI()


@app.post("/echo")
async def echo(body: dict[str, Any]) -> dict[str, Any]:
    """The request body."""
    return body


if __name__ == "__main__":
    how = {"log_config": None, "access_log": False, "http": "h11", "loop": "asyncio"}
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), **how)  # type: ignore[arg-type]
