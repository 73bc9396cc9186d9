/** The variables that texts can refer to. */
import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { variableSets } from "../api/requests";
import type { Variable } from "../text/template";

/** Sets whose variables are offered. */
const MOST = 1000;

/** The variables of all sets; a name that several have is there once. */
export function useVariables(): readonly Variable[] {
  const known = useQuery({
    queryKey: ["variable sets", "all"],
    queryFn: () => variableSets({ take: MOST }),
    staleTime: 60_000,
  });
  const { data } = known;
  return useMemo(() => {
    const sets = new Map<string, string[]>();
    for (const { spec } of data?.items ?? [])
      for (const { key = "" } of spec.values ?? [])
        sets.set(key, [...(sets.get(key) ?? []), spec.name ?? spec.id ?? ""]);
    return [...sets].sort().map(([name, held]) => ({ name, detail: held.join(", ") }));
  }, [data]);
}
