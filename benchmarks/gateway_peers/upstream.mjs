// A model server for benchmarks/gateway.py: prints its port, then answers until its stdin ends.
//
// POST .../chat/completions?tokens=N&pace_ms=P   N text chunks, the first at once, then one every P ms
// POST ...?...&hold=1                            after them silence, until the client leaves
// POST ...?seed=S&pieces=N                       N pieces of any bytes, cut at random, some ms between them
// POST ...?megabytes=N[&opaque=1]                N MB of text chunks, or of bytes with a length, at full speed
import http from "node:http";
import { bytesOf, Random } from "./bytes.mjs";

const EVENT = (text) =>
  `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m",` +
  `"choices":[{"index":0,"delta":{"content":"${text}"},"logprobs":null,"finish_reason":null}]}\n\n`;
const LAST =
  `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":` +
  `[{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n`;

const server = http.createServer({ keepAliveTimeout: 60_000 }, (request, response) => {
  const asked = new URL(request.url, "http://x").searchParams;
  request.resume().on("end", () => answer(response, asked));
});
server.requestTimeout = 0;

function answer(response, asked) {
  const number = (name) => Number(asked.get(name) ?? 0);
  if (asked.has("opaque")) return flood(response, number("megabytes"), Buffer.alloc(65_536, "x"), true);
  response.writeHead(200, { "content-type": "text/event-stream" });
  if (asked.has("megabytes")) {
    const event = EVENT("some text");
    const block = Buffer.from(event.repeat(Math.floor(65_536 / event.length)));
    return flood(response, number("megabytes"), block, false);
  }
  if (asked.has("seed")) return mix(response, number("seed"), number("pieces"));
  pace(response, number("tokens"), number("pace_ms"), asked.has("hold"));
}

function pace(response, tokens, paceMs, hold) {
  let left = tokens;
  const next = () => {
    response.write(EVENT("token"));
    if (--left > 0) return;
    clearInterval(timer);
    if (!hold) response.end(LAST);
  };
  const timer = setInterval(next, paceMs);
  response.on("close", () => clearInterval(timer));
  next();
}

function mix(response, seed, pieces) {
  const random = new Random(seed + 1_000_003);
  const whole = bytesOf(seed, pieces);
  let at = 0;
  const next = () => {
    if (response.destroyed) return;
    const size = 1 + random.below(1_500);
    response.write(whole.subarray(at, at + size));
    at += size;
    if (at >= whole.length) response.end();
    else setTimeout(next, random.below(20));
  };
  next();
}

function flood(response, megabytes, block, hasLength) {
  const blocks = Math.ceil((megabytes * 1e6) / block.length);
  if (hasLength) response.writeHead(200, { "content-length": blocks * block.length });
  let left = blocks;
  const more = () => {
    while (left > 0) {
      left -= 1;
      if (!response.write(block)) return response.once("drain", more);
    }
    response.end();
  };
  more();
}

server.listen({ port: 0, host: "127.0.0.1", backlog: 4096 }, () => console.log(server.address().port));
process.stdin.resume().on("end", () => process.exit(0));
