/** The colour slot of each service of a trace: by the hash of its name, so that it is the same in every trace. */

export const SLOTS = 10;

export interface Slot {
  /** The colour, from 0 to 9. */
  colour: number;
  /** Whether the colour is hatched: from the eleventh service on. */
  isHatched: boolean;
}

/** Assigns slots; services that meet in one slot are moved on in the order of their names. */
export function slots(services: readonly string[]): Slot[] {
  const names = [...services]
    .map((name, index) => ({ name, index }))
    .sort((a, b) => (a.name < b.name ? -1 : 1));
  const taken = new Array<boolean>(SLOTS).fill(false);
  const found = new Array<Slot>(services.length);
  names.forEach(({ name, index }, count) => {
    const isHatched = count >= SLOTS;
    let colour = hash(name) % SLOTS;
    while (!isHatched && taken[colour]) colour = (colour + 1) % SLOTS;
    taken[colour] = true;
    found[index] = { colour, isHatched };
  });
  return found;
}

function hash(text: string): number {
  let value = 2166136261;
  for (let at = 0; at < text.length; at += 1) value = Math.imul(value ^ text.charCodeAt(at), 16777619);
  return value >>> 0;
}
