/** Whether the client may change something: what would be refused is not shown. */
import { useQuery } from "@tanstack/react-query";
import { info } from "../api/requests";

export function useMayChange(): boolean {
  const about = useQuery({ queryKey: ["info"], queryFn: info, staleTime: 60_000 });
  return about.data?.scope !== "read";
}
