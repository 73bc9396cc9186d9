/** A definition's text and what stands in it: a form reads and changes parts of it, and the rest stays as written. */
import { type Document, isMap, isSeq, parseAllDocuments } from "yaml";
import { isSecretName, type Pair } from "./dotenv";

export type Path = readonly (string | number)[];

/** A text as read: its values, or why it cannot be read. */
export interface Definition {
  document: Document | undefined;
  problem: string | undefined;
}

/** Longer texts are not shown as a form. */
const LONGEST = 500_000;

export function read(text: string): Definition {
  if (text.length > LONGEST) return { document: undefined, problem: "The text is too long for a form." };
  const documents = parseAllDocuments(text, { prettyErrors: true, strict: true });
  const [document] = documents;
  if (!("length" in documents) || document === undefined)
    return { document: undefined, problem: "There is nothing in the text yet." };
  if (documents.length > 1)
    return { document: undefined, problem: "The text has several definitions; a form shows one." };
  const [error] = document.errors;
  if (error !== undefined) return { document: undefined, problem: error.message };
  if (!isMap(document.contents))
    return { document: undefined, problem: "A definition begins with `type: Test` and `spec:`." };
  return { document, problem: undefined };
}

/** The value at a path, as plain data. */
export function value(definition: Definition, path: Path): unknown {
  const found = definition.document?.getIn(path);
  if (typeof found === "object" && found !== null && "toJSON" in found)
    return (found as { toJSON: () => unknown }).toJSON();
  return found;
}

/** The text with another value at a path; comments and all other lines stay. An empty value removes the key. */
export function withValue(text: string, path: Path, to: unknown): string {
  const { document } = read(text);
  if (document === undefined) return text;
  if (to === undefined || to === "" || (Array.isArray(to) && to.length === 0)) document.deleteIn(path);
  else document.setIn(path, typeof to === "object" ? document.createNode(to) : to);
  return written(document, text);
}

/** The text with a trigger of another type; the details of the old one are left out. */
export function withTrigger(text: string, type: string, block: string, details: object): string {
  const { document } = read(text);
  if (document === undefined) return text;
  document.setIn(["spec", "trigger"], document.createNode({ type, [block]: details }));
  return written(document, text);
}

/** The text of a variable set with these values too; those that are there already are replaced. */
export function withVariables(text: string, pairs: readonly Pair[]): string {
  const { document } = read(text);
  if (document === undefined) return text;
  const held = document.getIn(["spec", "values"]);
  const keys = isSeq(held) ? held.items.map((item) => (isMap(item) ? String(item.get("key")) : "")) : [];
  if (keys.length === 0) document.setIn(["spec", "values"], document.createNode([]));
  for (const { key, value: to } of pairs) {
    const at = keys.indexOf(key);
    if (at >= 0) document.setIn(["spec", "values", at, "value"], to);
    else {
      const secret = isSecretName(key) ? { type: "secret" } : {};
      document.addIn(["spec", "values"], document.createNode({ key, value: to, ...secret }));
    }
  }
  return written(document, text);
}

/** A document in the manner of its text: lists indented or not, brackets with or without spaces, no line broken. */
function written(document: Document, text: string): string {
  return document.toString({
    lineWidth: 0,
    indentSeq: !/^( *)[^\s#-][^\n]*:\n\1- /m.test(text),
    flowCollectionPadding: /[[{] /.test(text),
  });
}
