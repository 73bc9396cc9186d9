/** What can stand at the cursor, and what of it is worth offering. */

/** A text to write, and what it replaces. */
export interface Offer {
  label: string;
  insert: string;
  kind: string;
  detail: string;
  from: number;
  to: number;
}

/** A schema lists everything that may stand at a place; the server has matched all else with the word that is typed. */
export const isListed = (offer: Offer) => offer.kind === "key" || offer.kind === "choice";

/**
 * The offers that help at a place of a text. What is written already is no help. Unless they were asked for, keys are
 * not offered before a letter of them is typed: every new line would have a list below it.
 */
export function helpful(offers: readonly Offer[], text: string, at: number, isAskedFor: boolean): Offer[] {
  const place = (offer: Offer) => {
    const typed = text.slice(offer.from, Math.max(offer.from, at)).toLowerCase();
    if (offer.kind === "key" && typed === "" && !isAskedFor) return -1;
    return isListed(offer) ? offer.label.toLowerCase().indexOf(typed) : 0;
  };
  const fitting = offers.filter(
    (offer) => place(offer) >= 0 && text.slice(offer.from, offer.to) !== offer.insert,
  );
  const begins = (offer: Offer) => place(offer) === 0;
  return [...fitting.filter(begins), ...fitting.filter((offer) => !begins(offer))];
}
