/** The lines in which two texts differ. */

export interface DiffLine {
  kind: "same" | "removed" | "added";
  text: string;
}

/** Longer texts are told as replaced. */
const MOST = 2000;

/** The shortest change of lines that makes `after` of `before`. */
export function diff(before: string, after: string): DiffLine[] {
  const [a, b] = [before.split("\n"), after.split("\n")];
  let begin = 0;
  while (begin < a.length && begin < b.length && a[begin] === b[begin]) begin += 1;
  let end = 0;
  while (end < a.length - begin && end < b.length - begin && a[a.length - 1 - end] === b[b.length - 1 - end])
    end += 1;
  const line = (kind: DiffLine["kind"]) => (text: string) => ({ kind, text });
  const middle = between(a.slice(begin, a.length - end), b.slice(begin, b.length - end));
  return [
    ...a.slice(0, begin).map(line("same")),
    ...middle,
    ...a.slice(a.length - end, a.length).map(line("same")),
  ];
}

function between(a: string[], b: string[]): DiffLine[] {
  const removed = a.map((text): DiffLine => ({ kind: "removed", text }));
  const added = b.map((text): DiffLine => ({ kind: "added", text }));
  if (a.length > MOST || b.length > MOST || a.length === 0 || b.length === 0) return [...removed, ...added];
  // The length of the longest common list of lines from each pair of places on.
  const width = b.length + 1;
  const common = new Uint16Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      common[i * width + j] =
        a[i] === b[j]
          ? common[(i + 1) * width + j + 1] + 1
          : Math.max(common[(i + 1) * width + j], common[i * width + j + 1]);
    }
  }
  const found: DiffLine[] = [];
  let [i, j] = [0, 0];
  while (i < a.length && j < b.length) {
    if (a[i] === b[j]) {
      found.push({ kind: "same", text: a[i] });
      i += 1;
      j += 1;
    } else if (common[(i + 1) * width + j] >= common[i * width + j + 1]) {
      found.push(removed[i]);
      i += 1;
    } else {
      found.push(added[j]);
      j += 1;
    }
  }
  return [...found, ...removed.slice(i), ...added.slice(j)];
}

/** Only what differs, with so many lines around it; `undefined` stands for lines that are left out. */
export function hunks(lines: DiffLine[], around = 2): (DiffLine | undefined)[] {
  const near = lines.map((_, index) =>
    lines.slice(Math.max(0, index - around), index + around + 1).some((line) => line.kind !== "same"),
  );
  const found: (DiffLine | undefined)[] = [];
  lines.forEach((line, index) => {
    if (near[index]) found.push(line);
    else if (found.length === 0 || found.at(-1) !== undefined) found.push(undefined);
  });
  return found;
}
