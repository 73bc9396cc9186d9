/** Spans whose name or service contains a text; what attributes contain, only the server knows. */
import type { Trace } from "./columns";

export function rowsWithText(trace: Trace, text: string): number[] {
  if (text.trim() === "") return [];
  const wanted = text.toLowerCase();
  // There are few different names: each is looked at once.
  const has = (one: string) => one.toLowerCase().includes(wanted);
  const [names, services] = [trace.names.map(has), trace.services.map(has)];
  const found: number[] = [];
  for (let row = 0; row < trace.total; row += 1)
    if (names[trace.name[row]] || services[trace.service[row]]) found.push(row);
  return found;
}
