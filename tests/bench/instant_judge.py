"""A judge that answers at once, for `genrm serve` and NeMo Gym's own server alike:
`instant_judge.py PORT`.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import uvicorn
from served import gym_response
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

_VERDICT = '{"score_1": 4, "score_2": 3, "ranking": 3}'
_MESSAGE = {"role": "assistant", "content": _VERDICT}
_COMPLETION = {
    "id": "c",
    "object": "chat.completion",
    "created": 0,
    "model": "judge",
    "choices": [{"index": 0, "finish_reason": "stop", "message": _MESSAGE}],
    "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
}


async def complete(request: Request) -> JSONResponse:
    """Answer as vLLM answers `genrm serve`."""
    await request.body()
    return JSONResponse(_COMPLETION)


async def respond(request: Request) -> JSONResponse:
    """Answer as NeMo Gym's model server answers its resources server."""
    await request.body()
    return JSONResponse(gym_response(_VERDICT))


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
