/** A stored text while it is edited: it is saved against the version that the edit began with. */
import { useState } from "react";
import { Refused } from "../api/client";

/** A text and the version to store it against; none for what is not stored yet. */
export interface Stored {
  text: string;
  etag?: string;
}

export interface Edited {
  text: string;
  isChanged: boolean;
  problem: unknown;
  /** What another has stored, if this text is based on an older version. */
  theirs: Stored | undefined;
  change: (text: string) => void;
  forget: () => void;
  /** Saves the text in the place of the version that it began with, or of another. */
  save: (etag?: string) => Promise<void>;
}

/**
 * Edits the text that is stored. That may be loaded again meanwhile, in another version: what was begun stays, with the
 * version that it was begun with. `load` gets the newest text, `keep` stores one.
 */
export function useEdited(
  stored: Stored | undefined,
  load: () => Promise<Stored>,
  keep: (text: string, etag: string | undefined) => Promise<void>,
): Edited {
  const [edited, setEdited] = useState<Stored>();
  const [problem, setProblem] = useState<unknown>();
  const [theirs, setTheirs] = useState<Stored>();
  const text = edited?.text ?? stored?.text ?? "";
  const forget = () => {
    setEdited(undefined);
    setTheirs(undefined);
    setProblem(undefined);
  };
  const save = async (etag = (edited ?? stored)?.etag) => {
    try {
      await keep(text, etag);
      setTheirs(undefined);
      setProblem(undefined);
      // What was typed meanwhile is not saved yet.
      setEdited((now) => (now === edited ? undefined : now));
    } catch (error) {
      setProblem(error);
      const isConflict = error instanceof Refused && error.status === 409;
      setTheirs(isConflict ? await load().catch(() => undefined) : undefined);
    }
  };
  const change = (changed: string) =>
    setEdited((before) => ({ text: changed, etag: (before ?? stored)?.etag }));
  const isChanged = edited !== undefined && edited.text !== stored?.text;
  return { text, isChanged, problem, theirs, change, forget, save };
}
