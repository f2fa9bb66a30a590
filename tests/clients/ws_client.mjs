// A client by node-ws, or, with the argument "built-in", by the WebSocket that Node.js has: the
// browsers' interface, which can set no header and is told no status.
import {createInterface} from "node:readline";
import {createRequire} from "node:module";
import {readFileSync} from "node:fs";

const o = JSON.parse(process.env.CLIENT);
const say = (...values) => process.stdout.write(JSON.stringify(values) + "\n");
const builtIn = process.argv[2] === "built-in";
let ws;
if (builtIn) {
  ws = new WebSocket(o.url, o.subprotocols);
} else {
  const Socket = createRequire(import.meta.url)("/usr/share/nodejs/ws");
  const read = name => name && readFileSync(name);
  ws = new Socket(o.url, o.subprotocols, {headers: o.headers, ca: read(o.ca),
    cert: read(o.certificate), key: read(o.key)});
  ws.on("unexpected-response", (request, response) => {
    say("refused", response.statusCode);
    process.exit(0);
  });
  ws.on("ping", () => say("ping"));
}
let opened = false;
ws.onopen = () => {
  opened = true;
  say("open", ws.protocol || null);
};
ws.onmessage = m => say("text", m.data);
// That of Node.js tells nothing but an error where it could not open.
ws.onerror = () => {
  if (builtIn && !opened) {
    say("refused", null);
    process.exit(0);
  }
};
ws.onclose = e => {
  say("close", e.code, e.reason);
  process.exit(0);
};
createInterface({input: process.stdin}).on("line", line => {
  const [what, value] = JSON.parse(line);
  if (what === "text")
    ws.send(value);
  else if (what === "binary")
    ws.send(Buffer.from(value, "hex"));
  else if (what === "close")
    ws.close(value);
});
