"""A judge that answers at once, for `genrm serve` and NeMo Gym's own server alike:
`instant_judge.py PORT`.
"""

import sys

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

_VERDICT = '{"score_1": 4, "score_2": 3, "ranking": 3}'
_COMPLETION = {
    "id": "c",
    "object": "chat.completion",
    "created": 0,
    "model": "judge",
    "choices": [
        {
            "index": 0,
            "finish_reason": "stop",
            "message": {"role": "assistant", "content": _VERDICT},
        }
    ],
    "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
}
_RESPONSE = {
    "id": "r",
    "object": "response",
    "created_at": 0,
    "model": "judge",
    "output": [
        {
            "id": "m",
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": _VERDICT, "annotations": []}],
        }
    ],
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
}


async def complete(request: Request) -> JSONResponse:
    """Answer as vLLM answers `genrm serve`."""
    await request.body()
    return JSONResponse(_COMPLETION)


async def respond(request: Request) -> JSONResponse:
    """Answer as NeMo Gym's model server answers its resources server."""
    await request.body()
    return JSONResponse(_RESPONSE)


async def list_models(request: Request) -> JSONResponse:
    """Name the only model."""
    del request
    return JSONResponse({"object": "list", "data": [{"id": "judge", "object": "model"}]})


if __name__ == "__main__":
    app = Starlette(
        routes=[
            Route("/v1/chat/completions", complete, methods=["POST"]),
            Route("/v1/responses", respond, methods=["POST"]),
            Route("/v1/models", list_models),
        ]
    )
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="error")
