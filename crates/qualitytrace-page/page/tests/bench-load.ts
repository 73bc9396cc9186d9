/** Traces for measurements: trees of spans with ten attributes each, in twelve services. */
import type { Server } from "./server";

const SERVICES = 12;
/** Spans in one request. */
const AT_ONCE = 5000;
/** The time of one span after another, in nanoseconds. */
const STEP = 20_000n;

const hex = (number: number) => (number + 1).toString(16).padStart(16, "0");

interface Made {
  service: number;
  name: string;
  id: string;
  parent: string | undefined;
  start: bigint;
  end: bigint;
}

const begins = new Map<string, bigint>();

/** When a trace begins. It ends when it is sent: spans of long ago make a server expect that all of a service are late. */
function beginOf(traceId: string, total: number): bigint {
  const known = begins.get(traceId) ?? BigInt(Date.now()) * 1_000_000n - BigInt(total) * STEP;
  begins.set(traceId, known);
  return known;
}

/** The span with this number; each has up to four children, so that none become a group. */
function span(traceId: string, number: number, total: number): Made {
  const parent = number === 0 ? undefined : Math.floor((number - 1) / 4);
  const start = beginOf(traceId, total) + BigInt(number) * STEP;
  const length =
    parent === undefined ? BigInt(total) * 25_000n : BigInt(200_000 + ((number * 7919) % 4_000_000));
  return {
    service: number % SERVICES,
    name: `operation ${number % 400}`,
    id: hex(number),
    parent: parent === undefined ? undefined : hex(parent),
    start,
    end: start + length,
  };
}

function attributes(number: number) {
  return [
    { key: "http.request.method", value: { stringValue: "GET" } },
    { key: "http.response.status_code", value: { intValue: 200 + (number % 5) } },
    { key: "http.route", value: { stringValue: `/items/{id}/${number % 50}` } },
    { key: "server.address", value: { stringValue: `service-${number % SERVICES}` } },
    { key: "server.port", value: { intValue: 8080 } },
    { key: "db.system.name", value: { stringValue: "postgresql" } },
    { key: "db.query.text", value: { stringValue: `SELECT * FROM items WHERE id = ${number}` } },
    { key: "thread.id", value: { intValue: number % 64 } },
    { key: "user.id", value: { stringValue: `user-${number % 1000}` } },
    { key: "cache.hit", value: { boolValue: number % 3 === 0 } },
  ];
}

/** Sends the spans from `from` on, up to `to`, of a trace that will have `total`. */
export async function send(
  server: Server,
  traceId: string,
  from: number,
  to: number,
  total: number,
): Promise<void> {
  for (let at = from; at < to; at += AT_ONCE) {
    const numbers = Array.from({ length: Math.min(AT_ONCE, to - at) }, (_, index) => at + index);
    const resourceSpans = Array.from({ length: SERVICES }, (_, service) => ({
      resource: { attributes: [{ key: "service.name", value: { stringValue: `service-${service}` } }] },
      scopeSpans: [
        {
          spans: numbers
            .filter((number) => number % SERVICES === service)
            .map((number) => {
              const made = span(traceId, number, total);
              return {
                traceId,
                spanId: made.id,
                parentSpanId: made.parent,
                name: made.name,
                kind: 2,
                startTimeUnixNano: String(made.start),
                endTimeUnixNano: String(made.end),
                attributes: attributes(number),
              };
            }),
        },
      ],
    }));
    const headers = { "content-type": "application/json" };
    const answer = await fetch(`${server.url}/v1/traces`, {
      method: "POST",
      headers,
      body: JSON.stringify({ resourceSpans }),
    });
    if (!answer.ok) throw new Error(`spans were refused: ${answer.status} ${await answer.text()}`);
  }
}

/** The same spans for Zipkin. */
export async function sendToZipkin(zipkin: string, traceId: string, total: number): Promise<void> {
  for (let at = 0; at < total; at += AT_ONCE) {
    const spans = Array.from({ length: Math.min(AT_ONCE, total - at) }, (_, index) => {
      const number = at + index;
      const made = span(traceId, number, total);
      const tags = attributes(number).map(({ key, value }) => [key, String(Object.values(value)[0])]);
      return {
        traceId,
        id: made.id,
        parentId: made.parent,
        name: made.name,
        kind: "SERVER",
        timestamp: Number(made.start / 1000n),
        duration: Number((made.end - made.start) / 1000n),
        localEndpoint: { serviceName: `service-${made.service}` },
        tags: Object.fromEntries(tags),
      };
    });
    const headers = { "content-type": "application/json" };
    const answer = await fetch(`${zipkin}/api/v2/spans`, {
      method: "POST",
      headers,
      body: JSON.stringify(spans),
    });
    if (!answer.ok) throw new Error(`Zipkin refused spans: ${answer.status}`);
  }
}
