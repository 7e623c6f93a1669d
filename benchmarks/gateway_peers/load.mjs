// Load for benchmarks/gateway.py: node load.mjs MODE JSON, where JSON has `urls` and the mode's numbers.
// Prints one line of JSON. A stream that ends early or with other bytes is counted in `wrong`.
import http from "node:http";
import { bytesOf } from "./bytes.mjs";

const [mode, json] = process.argv.slice(2);
const options = JSON.parse(json);
const BODY = JSON.stringify({
  model: "m",
  stream: true,
  stream_options: { include_usage: true },
  tools: [],
  messages: [{ role: "user", content: "x".repeat(20_000) }],
});
const now = () => Number(process.hrtime.bigint()) / 1e6;

/** One call; resolves with its times in ms once it ended. `seen` is given each piece and the time. */
function call(url, query, agent, seen = () => {}) {
  return new Promise((resolve) => {
    const result = { first: null, gap: 0, bytes: 0, whole: false };
    const began = now();
    let last = began;
    const headers = { "content-type": "application/json", "content-length": Buffer.byteLength(BODY) };
    const request = http.request(`${url}/chat/completions?${query}`, { method: "POST", headers, agent });
    request.on("response", (response) => {
      response.on("data", (piece) => {
        const at = now();
        if (result.first === null) result.first = at - began;
        else result.gap = Math.max(result.gap, at - last);
        last = at;
        result.bytes += piece.length;
        seen(piece, response);
      });
      response.on("end", () => (result.whole = response.statusCode === 200));
      response.on("close", () => resolve({ ...result, ms: now() - began }));
      response.on("error", () => {});
    });
    request.on("error", () => resolve({ ...result, ms: now() - began }));
    request.end(BODY);
  });
}

function spread(values) {
  const sorted = values.filter((value) => value !== null).sort((a, b) => a - b);
  const at = (part) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? null;
  return { count: sorted.length, p50: at(0.5), p99: at(0.99), max: at(1) };
}

const urlOf = (number) => options.urls[number % options.urls.length];

const modes = {
  /** `streams` at a time, one after another on each connection, `rounds` of them. */
  async paced({ streams, rounds, tokens, pace_ms }) {
    const agent = new http.Agent({ keepAlive: true, maxSockets: Infinity });
    const worker = async (number) => {
      const results = [];
      await new Promise((resolve) => setTimeout(resolve, (number * tokens * pace_ms) / streams));
      for (let round = 0; round < rounds; round++)
        results.push(await call(urlOf(number), `tokens=${tokens}&pace_ms=${pace_ms}`, agent));
      return results.slice(1); // the first opened the connection
    };
    const results = (await Promise.all(Array.from({ length: streams }, (_, n) => worker(n)))).flat();
    agent.destroy();
    return {
      first_ms: spread(results.map((r) => r.first)),
      gap_ms: spread(results.map((r) => r.gap)),
      wrong: results.filter((r) => !r.whole).length,
    };
  },

  /** `streams` at once, cut at random; every byte compared. */
  async mixed({ streams, pieces }) {
    const agent = new http.Agent({ keepAlive: false, maxSockets: Infinity });
    const one = async (seed) => {
      const want = bytesOf(seed, pieces);
      let at = 0;
      let same = true;
      const compare = (piece) => {
        same &&= want.compare(piece, 0, piece.length, at, at + piece.length) === 0;
        at += piece.length;
      };
      const result = await call(urlOf(seed), `seed=${seed}&pieces=${pieces}`, agent, compare);
      return { ...result, right: same && result.whole && at === want.length };
    };
    const results = await Promise.all(Array.from({ length: streams }, (_, n) => one(n)));
    return {
      longest_gap_ms: Math.max(...results.map((r) => r.gap)),
      last_end_ms: Math.max(...results.map((r) => r.ms)),
      wrong: results.filter((r) => !r.right).length,
    };
  },

  /** One stream at full speed. */
  async bulk({ megabytes, opaque }) {
    const agent = new http.Agent({ keepAlive: true });
    const query = `megabytes=${megabytes}${opaque ? "&opaque=1" : ""}`;
    const result = await call(urlOf(0), query, agent);
    agent.destroy();
    return { mb_per_s: result.bytes / 1e3 / result.ms, wrong: result.whole ? 0 : 1 };
  },

  /** `streams` new connections in one moment; each is left after its first byte. */
  async burst({ streams }) {
    const agent = new http.Agent({ keepAlive: false, maxSockets: Infinity });
    const results = await Promise.all(
      Array.from({ length: streams }, (_, n) => call(urlOf(n), "tokens=1&pace_ms=1", agent)),
    );
    return { first_ms: spread(results.map((r) => r.first)), wrong: results.filter((r) => !r.whole).length };
  },

  /** `streams` that stay open after a few tokens: says so, and lets go once stdin ends. */
  async hold({ streams }) {
    const agent = new http.Agent({ keepAlive: false, maxSockets: Infinity });
    let open = 0;
    const all = new Promise((resolve) => {
      for (let number = 0; number < streams; number++) {
        let counted = false;
        call(urlOf(number), "tokens=3&pace_ms=20&hold=1", agent, () => {
          if (!counted && (counted = true) && ++open === streams) resolve();
        });
      }
    });
    await all;
    console.log(JSON.stringify({ open }));
    await new Promise((resolve) => process.stdin.resume().on("end", resolve));
    process.exit(0);
  },
};

console.log(JSON.stringify(await modes[mode](options)));
