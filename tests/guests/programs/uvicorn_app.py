"""An ASGI application that computes a little."""

import json


async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        while True:
            message = await receive()
            await send({"type": message["type"] + ".complete"})
            if message["type"] == "lifespan.shutdown":
                return
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            break
    status, answer = 200, b"hello"
    if scope["path"] == "/sum":
        answer = json.dumps({"sum": sum(number * number for number in json.loads(body)), "text": "x" * 1000}).encode()
    elif scope["path"] == "/large":
        answer = b"y" * 5_000_000
    elif scope["path"] != "/":
        status = 404
    await send({"type": "http.response.start", "status": status, "headers": [(b"content-length", str(len(answer)).encode())]})
    await send({"type": "http.response.body", "body": answer})
