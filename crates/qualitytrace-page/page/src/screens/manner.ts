/** How a run is started: its variable set, and what is given beside it. */
import type { Shape } from "../api/client";
import type { Variable } from "../api/requests";

export interface Manner {
  variables?: Variable[];
  variableSetId?: string;
  /** Whether the run takes the place of this screen in the history. */
  isReplacing?: boolean;
}

const variable = (key: string, value: string, type: string | null | undefined): Variable =>
  type === "secret" ? { key, value, type } : { key, value };

/** How a run was started, to start it again. Its outputs are left out, and its secrets have no value. */
export function again(of: Shape<"RunVariables"> | null | undefined): Manner {
  const shown = new Map((of?.values ?? []).map(({ key = "", value = "" }) => [key, value]));
  const variables = (of?.given ?? []).map(({ key = "", value, type }) =>
    variable(key, type === "secret" ? "" : (value ?? shown.get(key) ?? ""), type),
  );
  return { variables, variableSetId: of?.id || undefined };
}

/** The variables to ask for before a run is started: a secret that it had is never shown. */
export const unknownSecrets = ({ variables = [] }: Manner): Variable[] =>
  variables.filter(({ type, value }) => type === "secret" && value === "");

/** The variables that a refusal lists, with the values that they had in the last run. */
export function missing(detail: unknown): Variable[] {
  const { missingVariables = [] } = (detail ?? {}) as {
    missingVariables?: { variables?: Partial<Shape<"MissingVariable">>[] }[];
  };
  const found = new Map<string, Variable>();
  for (const { key, defaultValue, type } of missingVariables.flatMap((list) => list.variables ?? []))
    if (key !== undefined) found.set(key, variable(key, defaultValue ?? "", type));
  return [...found.values()];
}

/** The same way, with answers to what was asked. */
export function withAnswers(manner: Manner, answers: Variable[]): Manner {
  const isAnswered = (key: string) => answers.some((one) => one.key === key);
  const given = (manner.variables ?? []).filter(({ key }) => !isAnswered(key));
  return { ...manner, variables: [...given, ...answers] };
}
