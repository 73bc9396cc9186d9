// Writes the gzip and Brotli forms of each built file beside it, where they are smaller.
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";

const dist = new URL("../dist/", import.meta.url).pathname;
for (const entry of readdirSync(dist, { recursive: true, withFileTypes: true })) {
  const path = join(entry.parentPath, entry.name);
  // The document is filled in by the server; fonts are compressed already.
  if (!entry.isFile() || /\.(gz|br|woff2)$|^index\.html$/.test(entry.name)) continue;
  const plain = readFileSync(path);
  const brotli = brotliCompressSync(plain, {
    params: { [constants.BROTLI_PARAM_QUALITY]: 10, [constants.BROTLI_PARAM_SIZE_HINT]: plain.length },
  });
  for (const [ending, form] of [
    ["gz", gzipSync(plain, { level: 9 })],
    ["br", brotli],
  ]) {
    if (form.length < plain.length) writeFileSync(`${path}.${ending}`, form);
  }
}
