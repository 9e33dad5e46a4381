"""The HTTP server: Starlette routes requests to the shapes, uvicorn speaks HTTP."""
