/** A dialog that Escape and a click beside it close; focus goes back to where it was. */
import { type ReactNode, useEffect, useState } from "react";

export function Dialog(props: { name: string; onClose: () => void; children: ReactNode }) {
  const [before] = useState(() => document.activeElement);
  useEffect(
    () => () => {
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    },
    [before],
  );
  return (
    <dialog
      ref={(element) => {
        if (element !== null && !element.open) element.showModal();
      }}
      aria-label={props.name}
      onClose={props.onClose}
      onClick={(event) => event.target === event.currentTarget && props.onClose()}
      onKeyDown={(event) => {
        if (event.key !== "Escape" || event.defaultPrevented) return;
        // The browser would close it, whatever the answer to a question is.
        event.preventDefault();
        props.onClose();
      }}
    >
      {props.children}
    </dialog>
  );
}
