/** Lists that the server sorts, filters and hands out in pages: further ones come as they are needed. */
import { useInfiniteQuery } from "@tanstack/react-query";
import { useEffect, useRef } from "react";
import { useSearchChange } from "./search";

const PAGE = 50;
/** From so many rows on, a list is asked for anew less often. */
const LONG = 200;

interface Page<Item> {
  count: number;
  items: Item[];
}

/** The items of a list that are loaded, how many there are in all, and the way to the next page. */
export function usePages<Item extends { spec: { id?: string | null } }>(
  key: readonly unknown[],
  load: (page: { take: number; skip: number }) => Promise<Page<Item>>,
) {
  const found = useInfiniteQuery({
    queryKey: key,
    queryFn: ({ pageParam }) => load({ take: PAGE, skip: pageParam }),
    initialPageParam: 0,
    getNextPageParam: (page, pages) => {
      const loaded = pages.reduce((sum, { items }) => sum + items.length, 0);
      return page.items.length > 0 && loaded < page.count ? loaded : undefined;
    },
    refetchInterval: ({ state }) => ((state.data?.pages.length ?? 0) * PAGE > LONG ? 60_000 : 5000),
    // What was shown stays until the answer to a new filter is here.
    placeholderData: (before) => before,
  });
  const pages = found.data?.pages ?? [];
  // What is stored meanwhile moves the rows of later pages.
  const items = new Map(pages.flatMap((page) => page.items).map((item) => [item.spec.id ?? "", item]));
  return { ...found, items: [...items.values()], count: pages[pages.length - 1]?.count };
}

/** Asks for the next page when it comes into view, or at a click. */
export function More(props: { name: string; pages: { hasNextPage: boolean; fetchNextPage: () => unknown } }) {
  const { hasNextPage, fetchNextPage } = props.pages;
  const button = useRef<HTMLButtonElement>(null);
  const next = useRef(fetchNextPage);
  useEffect(() => {
    next.current = fetchNextPage;
  });
  useEffect(() => {
    if (!hasNextPage || button.current === null) return;
    const seen = new IntersectionObserver((entries) => {
      if (entries.some((entry) => entry.isIntersecting)) void next.current();
    });
    seen.observe(button.current);
    return () => seen.disconnect();
  }, [hasNextPage]);
  if (!hasNextPage) return null;
  return (
    <p className="pad">
      <button type="button" ref={button} onClick={() => fetchNextPage()}>
        {props.name}
      </button>
    </p>
  );
}

/** The order of a list in its address: a column, with `-` in front for descending. */
export interface Sort<Column extends string> {
  sortBy: Column;
  sortDirection: "asc" | "desc";
}

export function sortOf<Column extends string>(
  text: string | undefined,
  columns: readonly Column[],
  usual: Sort<Column>,
): Sort<Column> {
  const sortBy = columns.find((column) => column === text?.replace(/^-/, ""));
  if (sortBy === undefined) return usual;
  return { sortBy, sortDirection: text?.startsWith("-") ? "desc" : "asc" };
}

/** The head of a column that a list can be sorted by. */
export function SortHead<Column extends string>(props: {
  column: Column;
  name: string;
  sort: Sort<Column>;
  /** The direction of the first click. */
  first?: "asc" | "desc";
}) {
  const { column, name, sort, first = "asc" } = props;
  const change = useSearchChange();
  const isSorted = sort.sortBy === column;
  const turned = sort.sortDirection === "asc" ? "desc" : "asc";
  const next = isSorted ? turned : first;
  const mark = sort.sortDirection === "asc" ? "↑" : "↓";
  return (
    <th aria-sort={isSorted ? (sort.sortDirection === "asc" ? "ascending" : "descending") : undefined}>
      <button
        type="button"
        className="sort"
        onClick={() => change({ sort: `${next === "desc" ? "-" : ""}${column}` }, false)}
      >
        {name} {isSorted && <span aria-hidden="true">{mark}</span>}
      </button>
    </th>
  );
}
