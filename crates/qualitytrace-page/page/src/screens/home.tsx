/** `/`: the tests, or how to send a first trace where there is nothing yet. */
import { useQuery } from "@tanstack/react-query";
import { Navigate } from "@tanstack/react-router";
import { findTests, traces } from "../api/requests";
import { Loading } from "../ui/parts";

export function HomeScreen() {
  const held = useQuery({
    queryKey: ["is empty"],
    queryFn: () => Promise.all([findTests("", 1), traces({ take: 1 })]),
  });
  if (held.isPending) return <Loading />;
  const [tests, found] = held.data ?? [];
  const isEmpty = tests?.count === 0 && found?.items.length === 0;
  return <Navigate to={isEmpty ? "/start" : "/tests"} replace />;
}
