import { expect, test, vi } from "vitest";

vi.stubGlobal("document", { baseURI: "http://127.0.0.1/below/" });
const { Messages } = await import("./stream");

const encoder = new TextEncoder();

test("messages are found in pieces of any size", () => {
  const text = 'id: 7\ndata: {"what":"ä"}\n\n: keep-alive\n\ndata: 1\ndata: 2\n\nid: 8\nda';
  for (const size of [1, 2, 3, 7, 1000]) {
    const messages = new Messages();
    const found = [];
    const bytes = encoder.encode(text);
    for (let at = 0; at < bytes.length; at += size) found.push(...messages.take(bytes.slice(at, at + size)));
    expect(found).toEqual([
      { id: "7", data: '{"what":"ä"}' },
      { id: undefined, data: "1\n2" },
    ]);
  }
});
