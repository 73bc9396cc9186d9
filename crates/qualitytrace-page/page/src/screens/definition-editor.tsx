/** The text of a definition: the server checks it while it is written, and says what can stand at the cursor. */
import { checkDefinition, complete, type Source } from "../api/requests";
import { variablesAt } from "../text/template";
import { Editor } from "../ui/editor";
import { useVariables } from "./known-variables";

export function DefinitionEditor(props: {
  name: string;
  text: string;
  onChange: (text: string) => void;
  isReadOnly?: boolean;
  /** How many lines are seen, if not as many as there is room for. */
  lines?: number;
  /** The spans that selectors and assertions may be about. */
  source?: Source;
}) {
  const { source, ...rest } = props;
  const variables = useVariables();
  return (
    <Editor
      {...rest}
      language="yaml"
      check={checkDefinition}
      complete={async (text, at, signal) =>
        variablesAt(text.slice(0, at), variables) ??
        (await complete(text, at, "definition", source, signal)).items
      }
    />
  );
}
