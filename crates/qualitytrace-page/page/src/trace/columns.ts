/** A trace as columns, in the order of arrival, in typed arrays that grow. It knows nothing about screens. */

/** An answer of the API with columns, as far as it is read here. */
export interface ColumnsAnswer {
  traceId: string;
  revision: string;
  from: number;
  total: number;
  origin: string;
  names: string[];
  services: string[];
  ids: string;
  parent: number[];
  orphans: unknown[][];
  adopted: unknown[][];
  name: number[];
  service: number[];
  kind: number[];
  status: number[];
  start: number[];
  duration: number[];
  flags: number[];
}

export const FLAG = { trigger: 1, late: 2, events: 4, links: 8, redacted: 16, open: 32 } as const;
export const STATUS_ERROR = 2;
export const STATUSES = ["unset", "ok", "error"] as const;
export const KINDS = ["unspecified", "internal", "server", "client", "producer", "consumer"] as const;
const ID_LENGTH = 16;

/** The distinct texts of one column, each with a number. */
class Texts {
  readonly list: string[] = [];
  private readonly numbers = new Map<string, number>();

  number(text: string): number {
    const known = this.numbers.get(text);
    if (known !== undefined) return known;
    const number = this.list.push(text) - 1;
    this.numbers.set(text, number);
    return number;
  }
}

/** The spans of a trace that have arrived. */
export class Trace {
  traceId = "";
  revision = "";
  /** Nanoseconds since the epoch that `start` counts from. */
  origin = "0";
  total = 0;
  parent = new Int32Array(0);
  name = new Int32Array(0);
  service = new Int32Array(0);
  kind = new Uint8Array(0);
  status = new Uint8Array(0);
  start = new Float64Array(0);
  duration = new Float64Array(0);
  flags = new Uint8Array(0);
  /** The id of the parent of each span whose parent has not arrived. */
  readonly orphans = new Map<number, string>();
  private readonly nameTexts = new Texts();
  private readonly serviceTexts = new Texts();
  private ids = "";

  get names(): readonly string[] {
    return this.nameTexts.list;
  }

  get services(): readonly string[] {
    return this.serviceTexts.list;
  }

  /** Takes an answer of the API. Its rows replace those from `from` on. Returns whether anything changed. */
  take(answer: ColumnsAnswer): boolean {
    const count = answer.parent.length;
    const total = answer.from + count;
    if (answer.from > this.total) return false;
    const isChanged = count > 0 || total !== this.total;
    this.grow(total);
    const names = answer.names.map((text) => this.nameTexts.number(text));
    const services = answer.services.map((text) => this.serviceTexts.number(text));
    for (let index = 0; index < count; index += 1) {
      const row = answer.from + index;
      this.parent[row] = answer.parent[index];
      this.name[row] = names[answer.name[index]];
      this.service[row] = services[answer.service[index]];
      this.kind[row] = answer.kind[index];
      this.status[row] = answer.status[index];
      this.start[row] = answer.start[index];
      this.duration[row] = answer.duration[index];
      this.flags[row] = answer.flags[index];
    }
    for (const row of [...this.orphans.keys()]) if (row >= answer.from) this.orphans.delete(row);
    for (const [row, id] of answer.orphans) this.orphans.set(Number(row), String(id));
    for (const [row, parent] of answer.adopted) {
      this.parent[Number(row)] = Number(parent);
      this.orphans.delete(Number(row));
    }
    this.ids = this.ids.slice(0, answer.from * ID_LENGTH) + answer.ids;
    this.total = total;
    this.traceId = answer.traceId;
    this.origin = answer.origin;
    this.revision = answer.revision;
    return isChanged;
  }

  id(row: number): string {
    return this.ids.slice(row * ID_LENGTH, (row + 1) * ID_LENGTH);
  }

  /** The row of a span, or -1. Ids are searched as one text: a table of them takes longer to make than to search. */
  row(id: string): number {
    if (id.length !== ID_LENGTH) return -1;
    let at = this.ids.indexOf(id);
    while (at >= 0 && at % ID_LENGTH !== 0) at = this.ids.indexOf(id, at + 1);
    return at < 0 ? -1 : at / ID_LENGTH;
  }

  /** The rows of many spans; those that have not arrived are left out. */
  rowsOf(ids: readonly string[]): number[] {
    const wanted = new Set(ids);
    const found: number[] = [];
    for (let row = 0; row < this.total && found.length < wanted.size; row += 1)
      if (wanted.has(this.id(row))) found.push(row);
    return found;
  }

  nameOf(row: number): string {
    return this.nameTexts.list[this.name[row]] ?? "";
  }

  serviceOf(row: number): string {
    return this.serviceTexts.list[this.service[row]] ?? "";
  }

  isError(row: number): boolean {
    return this.status[row] === STATUS_ERROR;
  }

  private grow(total: number): void {
    if (total <= this.parent.length) return;
    const capacity = Math.max(total, Math.ceil(this.parent.length * 1.5), 64);
    const longer = <T extends Int32Array | Uint8Array | Float64Array>(old: T, empty: T): T => {
      empty.set(old);
      return empty;
    };
    this.parent = longer(this.parent, new Int32Array(capacity));
    this.name = longer(this.name, new Int32Array(capacity));
    this.service = longer(this.service, new Int32Array(capacity));
    this.kind = longer(this.kind, new Uint8Array(capacity));
    this.status = longer(this.status, new Uint8Array(capacity));
    this.start = longer(this.start, new Float64Array(capacity));
    this.duration = longer(this.duration, new Float64Array(capacity));
    this.flags = longer(this.flags, new Uint8Array(capacity));
  }
}
