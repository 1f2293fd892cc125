// The TypeScript MCP SDK as a driver: an agent on stdio (`agent.mjs stdio COMMAND ...`) or HTTP (`agent.mjs http URL`).
//
// One JSON request per line on stdin, one reply per line on stdout (see README.md). The list of tools is read
// first, so that the SDK holds every result against the tool's output schema. The server's stderr is ours.

import { createInterface } from 'node:readline';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';

const [kind, target, ...args] = process.argv.slice(2);
const transport =
  kind === 'http'
    ? new StreamableHTTPClientTransport(new URL(target))
    : new StdioClientTransport({ command: target, args, env: process.env });
const client = new Client({ name: 'interop', version: '0' });
await client.connect(transport);
const { tools } = await client.listTools();

const ops = {
  info: () => ({ name: client.getServerVersion().name, protocol: transport.protocolVersion ?? null }),
  tools: () => tools.map((tool) => tool.name),
  call: async ({ tool, arguments: input }) => {
    const result = await client.callTool({ name: tool, arguments: input });
    return {
      isError: result.isError === true,
      structured: result.structuredContent ?? null,
      text: result.content[0].text,
    };
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const { id, op, ...request } = JSON.parse(line);
  try {
    process.stdout.write(`${JSON.stringify({ id, result: await ops[op](request) })}\n`);
  } catch (error) {
    process.stdout.write(`${JSON.stringify({ id, error: `${error.name}: ${error.message}` })}\n`);
  }
}
if (kind === 'http') await transport.terminateSession();
await client.close();
