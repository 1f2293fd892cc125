"""The Python MCP SDK as a driver: an agent on stdio (`agent.py stdio COMMAND ...`) or HTTP (`agent.py http URL MODE`).

One JSON request per line on stdin, one reply per line on stdout (see README.md). MODE is the SDK's: `auto`
takes the newest revision that the server knows, `legacy` the handshake. The server's stderr is ours.
"""

import asyncio
import json
import os
import sys

from mcp import Client
from mcp.client.stdio import StdioServerParameters


def server():
    if sys.argv[1] == "http":
        return Client(sys.argv[2], mode=sys.argv[3], read_timeout_seconds=40)
    command, *arguments = sys.argv[2:]
    parameters = StdioServerParameters(command=command, args=arguments, env=dict(os.environ))
    return Client(parameters, read_timeout_seconds=40)


async def answer(client, request):
    if request["op"] == "info":
        return {"name": client.server_info.name, "protocol": client.protocol_version}
    if request["op"] == "tools":
        return [tool.name for tool in (await client.list_tools()).tools]
    result = await client.call_tool(request["tool"], request["arguments"])
    return {
        "isError": bool(result.is_error),
        "structured": result.structured_content,
        "text": result.content[0].text,
    }


async def main():
    async with server() as client:
        while line := await asyncio.to_thread(sys.stdin.readline):
            request = json.loads(line)
            reply = {"id": request["id"]}
            try:
                reply["result"] = await answer(client, request)
            except Exception as error:
                reply["error"] = f"{type(error).__name__}: {error}"
            print(json.dumps(reply), flush=True)


asyncio.run(main())
