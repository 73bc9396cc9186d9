/** What can be done with a test beside running it: another name, a copy, its end. */
import { useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { type FormEvent, useState, useSyncExternalStore } from "react";
import { source, store } from "../api/requests";
import { Icon } from "../ui/glyphs";
import { Menu } from "../ui/menu";
import { Problem } from "../ui/parts";
import { deleteLater, onDeletionChange, pendingDeletions, undoDeletion } from "./deletions";
import { Dialog } from "./dialog";

export function TestActions({ id, name }: { id: string; name: string }) {
  const [asked, setAsked] = useState<"rename" | "duplicate">();
  const [problem, setProblem] = useState<unknown>();
  const client = useQueryClient();
  const navigate = useNavigate();
  const remove = async () => {
    deleteLater({ id, name }, async (failure) => {
      if (failure !== undefined) setProblem(failure);
      await client.invalidateQueries({ queryKey: ["tests"] });
    });
    await navigate({ to: "/tests" });
  };
  return (
    <>
      <Menu
        name="More actions"
        items={[
          { name: "Rename", act: () => setAsked("rename") },
          { name: "Duplicate", act: () => setAsked("duplicate") },
          { name: "Delete", act: remove },
        ]}
      >
        <Icon name="more" />
      </Menu>
      {problem !== undefined && <Problem error={problem} />}
      {asked !== undefined && (
        <NameDialog id={id} name={name} kind={asked} onClose={() => setAsked(undefined)} />
      )}
    </>
  );
}

function NameDialog(props: { id: string; name: string; kind: "rename" | "duplicate"; onClose: () => void }) {
  const { id, name, kind, onClose } = props;
  const [typed, setTyped] = useState(kind === "rename" ? name : `${name} (copy)`);
  const [problem, setProblem] = useState<unknown>();
  const client = useQueryClient();
  const navigate = useNavigate();
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    try {
      const stored = await source("tests", id);
      // Reading YAML takes as much code as a screen: it comes when it is needed.
      const { withValue } = await import("../text/definition");
      const named = withValue(stored.text, ["spec", "name"], typed);
      if (kind === "rename") await store("tests", named, id, stored.etag);
      else {
        const copy = await store("tests", withValue(named, ["spec", "id"], undefined));
        await navigate({ to: "/test/$id", params: { id: copy.id } });
      }
      await client.invalidateQueries({ queryKey: ["test", id] });
      await client.invalidateQueries({ queryKey: ["source", id] });
      await client.invalidateQueries({ queryKey: ["tests"] });
      onClose();
    } catch (error) {
      setProblem(error);
    }
  };
  const title = kind === "rename" ? "Rename the test" : "Duplicate the test";
  return (
    <Dialog name={title} onClose={onClose}>
      <form onSubmit={submit} className="form">
        <h2>{title}</h2>
        <label>
          Name
          <input
            required
            pattern=".*\S.*"
            value={typed}
            autoFocus
            onFocus={(event) => event.target.select()}
            onChange={(event) => setTyped(event.target.value)}
          />
        </label>
        {problem !== undefined && <Problem error={problem} />}
        <div className="buttons">
          <button type="button" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" className="primary">
            {kind === "rename" ? "Rename" : "Duplicate"}
          </button>
        </div>
      </form>
    </Dialog>
  );
}

/** The tests that are about to be deleted, and the way back. */
export function DeletionBar() {
  const pending = useSyncExternalStore(onDeletionChange, pendingDeletions);
  return (
    <output className="deletions" aria-label="Deleted" hidden={pending.length === 0}>
      {pending.map(({ id, name }) => (
        <span key={id}>
          Deleted {name}{" "}
          <button
            type="button"
            className="quiet"
            aria-label={`Undo: keep ${name}`}
            onClick={() => undoDeletion(id)}
          >
            Undo
          </button>
        </span>
      ))}
    </output>
  );
}
