// Runs edge functions as Supabase does: each under /functions/v1/NAME, with the part of Deno that they use. Prints its port.
// usage: node edge_runtime.mjs FOLDER NAME...

import { createServer } from "node:http";
import { pathToFileURL } from "node:url";

const [folder, ...names] = process.argv.slice(2);
const handlers = new Map();
for (const name of names) {
  globalThis.Deno = { env: { get: (key) => process.env[key] }, serve: (handler) => handlers.set(name, handler) };
  await import(pathToFileURL(`${folder}/${name}/index.js`));
}

const server = createServer(async (incoming, outgoing) => {
  const chunks = [];
  for await (const chunk of incoming) chunks.push(chunk);
  const request = new Request(`http://edge${incoming.url}`, {
    method: incoming.method,
    headers: incoming.headers,
    ...(chunks.length && { body: Buffer.concat(chunks) }),
  });
  const response = await handlers.get(incoming.url.replace("/functions/v1/", ""))(request);
  outgoing.writeHead(response.status, Object.fromEntries(response.headers));
  outgoing.end(Buffer.from(await response.arrayBuffer()));
});
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
