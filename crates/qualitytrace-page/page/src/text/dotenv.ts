/** Variables in the form of dotenv files and shells: `NAME=value`, a line each. */

export interface Pair {
  key: string;
  value: string;
}

/** Longer texts are not read. */
const LONGEST = 500_000;
const LINE = /^\s*(?:export\s+)?([A-Za-z_][\w.-]*)\s*=[ \t]*/;
const ESCAPES: Record<string, string> = { n: "\n", r: "\r", t: "\t" };

/** The variables of a text, the last value of each name; and the lines that cannot be read. */
export function readDotenv(text: string): { pairs: Pair[]; unread: number[] } {
  if (text.length > LONGEST) return { pairs: [], unread: [1] };
  const found = new Map<string, string>();
  const unread: number[] = [];
  const lines = text.replaceAll("\r\n", "\n").split("\n");
  for (let at = 0; at < lines.length; at += 1) {
    const line = lines[at];
    if (/^\s*(#|$)/.test(line)) continue;
    const begin = LINE.exec(line);
    if (begin === null) {
      unread.push(at + 1);
      continue;
    }
    const rest = line.slice(begin[0].length);
    const [quote] = rest;
    if (quote !== '"' && quote !== "'") {
      found.set(begin[1], rest.replace(/(^|\s)#.*$/, "").trim());
      continue;
    }
    // A quoted value may go on over several lines.
    let quoted = rest.slice(1);
    let last = at;
    let end = endOf(quoted, quote);
    while (end < 0 && last + 1 < lines.length) {
      last += 1;
      quoted += `\n${lines[last]}`;
      end = endOf(quoted, quote);
    }
    if (end < 0) {
      unread.push(at + 1);
      continue;
    }
    const value = quoted.slice(0, end);
    found.set(begin[1], quote === "'" ? value : unescaped(value));
    at = last;
  }
  return { pairs: [...found].map(([key, value]) => ({ key, value })), unread };
}

/** Where a quoted value ends; -1 if it does not. */
function endOf(text: string, quote: string): number {
  for (let at = 0; at < text.length; at += 1) {
    if (quote === '"' && text[at] === "\\") at += 1;
    else if (text[at] === quote) return at;
  }
  return -1;
}

const unescaped = (value: string) =>
  value.replaceAll(/\\([\s\S])/g, (_, letter: string) => ESCAPES[letter] ?? letter);

/** Whether a variable is a secret, by its name. */
export function isSecretName(key: string): boolean {
  return /(^|[_.-])(pass(word|wd)?|secret|token|credentials?|api_?key|private_?key)s?($|[_.-])/i.test(key);
}
