// Scenarios for @modelcontextprotocol/sdk 1.x. The server's URL is an
// argument; one line of JSON is printed for each scenario.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { ElicitRequestSchema, CreateMessageRequestSchema } from '@modelcontextprotocol/sdk/types.js';

const [url] = process.argv.slice(2);
const client = new Client({ name: 'interop', version: '1' }, { capabilities: { elicitation: { form: {} }, sampling: {} } });
client.setRequestHandler(ElicitRequestSchema, async () => ({ action: 'accept', content: { username: 'ada', email: 'ada@example.com' } }));
client.setRequestHandler(CreateMessageRequestSchema, async () => ({ role: 'assistant', model: 'm', content: { type: 'text', text: 'Paris' } }));

async function scenario(name, f) {
  try {
    await f();
    console.log(JSON.stringify({ scenario: name, ok: true }));
  } catch (e) {
    console.log(JSON.stringify({ scenario: name, ok: false, why: String(e) }));
  }
}
function must(ok, what) {
  if (!ok) throw new Error(what);
}
async function fails(promise, code) {
  let error;
  try {
    await promise;
  } catch (e) {
    error = e;
  }
  must(error && error.code === code, 'want error ' + code + ', got ' + error);
}

const transport = new StreamableHTTPClientTransport(new URL(url));
await scenario('connect', () => client.connect(transport));
await scenario('tools-list', async () => must((await client.listTools()).tools.some((t) => t.name === 'test_simple_text'), 'not listed'));
await scenario('tools-call', async () => {
  const r = await client.callTool({ name: 'test_simple_text', arguments: {} });
  must(r.structuredContent.status === 'success' && r.structuredContent.data.text.startsWith('This is'), JSON.stringify(r));
});
await scenario('tools-call-error', async () => {
  const r = await client.callTool({ name: 'test_error_handling', arguments: {} });
  must(r.isError && r.structuredContent.error.code === 'CONFLICT', JSON.stringify(r));
});
await scenario('tools-call-unknown', () => fails(client.callTool({ name: 'nothing', arguments: {} }), -32602));
await scenario('tools-call-progress', async () => {
  let n = 0;
  await client.callTool({ name: 'test_tool_with_progress', arguments: {} }, undefined, { onprogress: () => n++ });
  must(n >= 3, n + ' reports');
});
await scenario('elicitation', async () => {
  const r = await client.callTool({ name: 'test_elicitation', arguments: { message: 'who?' } });
  must(JSON.stringify(r).includes('ada@example.com'), JSON.stringify(r));
});
await scenario('sampling', async () => {
  const r = await client.callTool({ name: 'test_sampling', arguments: { prompt: 'capital?' } });
  must(JSON.stringify(r).includes('Paris'), JSON.stringify(r));
});
await scenario('resources', async () => {
  must((await client.listResources()).resources.length === 3, 'not three');
  must((await client.listResourceTemplates()).resourceTemplates.length === 1, 'not one');
  const r = await client.readResource({ uri: 'test://template/%C3%BC/data' });
  must(JSON.stringify(r).includes('ü'), JSON.stringify(r));
  await fails(client.readResource({ uri: 'test://nowhere' }), -32602);
});
await scenario('prompts', async () => {
  must((await client.listPrompts()).prompts.length === 5, 'not five');
  const r = await client.getPrompt({ name: 'test_prompt_with_arguments', arguments: { arg1: 'x', arg2: 'y' } });
  must(JSON.stringify(r).includes("arg1='x'"), JSON.stringify(r));
  await fails(client.getPrompt({ name: 'nothing' }), -32602);
});
await scenario('completion', async () => {
  const r = await client.complete({ ref: { type: 'ref/resource', uri: 'test://template/{id}/data' }, argument: { name: 'id', value: 'a' } });
  must(r.completion.values.length > 0, JSON.stringify(r));
});
await scenario('close', async () => {
  await transport.terminateSession();
  await client.close();
});
