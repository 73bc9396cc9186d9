/** Texts of triggers, in which variables stand as `${var:NAME}`. */
import type { Offer } from "./completion";

export interface Variable {
  name: string;
  /** Where it is. */
  detail: string;
}

/** The variables that can stand at the end of a text; undefined if none is begun there. */
export function variablesAt(before: string, variables: readonly Variable[]): Offer[] | undefined {
  const begun = /\$\{\s*(?:var|env):([\w.-]*)$/.exec(before);
  if (begun === null) return undefined;
  const to = before.length;
  return variables
    .filter(({ name }) => name.toLowerCase().startsWith(begun[1].toLowerCase()) && name !== begun[1])
    .map(({ name, detail }) => ({
      label: name,
      insert: name,
      kind: "variable",
      detail,
      from: to - begun[1].length,
      to,
    }));
}

/** Whether a text ends inside of an expression, after `${`. */
export function isInExpression(before: string): boolean {
  return before.lastIndexOf("${") > before.lastIndexOf("}");
}
