/** Archives of texts in the format of tar (POSIX ustar), which every system can open. */

export interface Entry {
  /** At most 100 bytes. */
  name: string;
  text: string;
}

const BLOCK = 512;
const encoder = new TextEncoder();

/** An archive of these files, all written at the same moment. */
export function tar(entries: readonly Entry[], at: Date): Uint8Array<ArrayBuffer> {
  const files = entries.map(({ name, text }) => ({ name: encoder.encode(name), body: encoder.encode(text) }));
  const blocks = files.reduce((all, { body }) => all + 1 + Math.ceil(body.length / BLOCK), 0);
  // Two empty blocks are the end.
  const archive = new Uint8Array((blocks + 2) * BLOCK);
  let offset = 0;
  for (const { name, body } of files) {
    archive.set(header(name, body.length, at), offset);
    archive.set(body, offset + BLOCK);
    offset += (1 + Math.ceil(body.length / BLOCK)) * BLOCK;
  }
  return archive;
}

function header(name: Uint8Array, size: number, at: Date): Uint8Array {
  if (name.length > 100) throw new RangeError("the name of a file in an archive has at most 100 bytes");
  const block = new Uint8Array(BLOCK);
  const put = (place: number, text: string) => block.set(encoder.encode(text), place);
  const octal = (number: number, digits: number) => Math.floor(number).toString(8).padStart(digits, "0");
  block.set(name, 0);
  put(100, `${octal(0o644, 7)}\0`);
  put(108, `${octal(0, 7)}\0`);
  put(116, `${octal(0, 7)}\0`);
  put(124, `${octal(size, 11)}\0`);
  put(136, `${octal(at.getTime() / 1000, 11)}\0`);
  // The checksum counts its own eight bytes as spaces.
  put(148, "        ");
  put(156, "0");
  put(257, "ustar\x0000");
  const sum = block.reduce((all, byte) => all + byte, 0);
  put(148, `${octal(sum, 6)}\0 `);
  return block;
}
