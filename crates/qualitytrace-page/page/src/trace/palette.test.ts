import { expect, test } from "vitest";
import { SLOTS, slots } from "./palette";

test("ten services have ten colours, in whatever order they arrive", () => {
  const names = Array.from({ length: SLOTS }, (_, index) => `service-${index}`);
  const colours = slots(names).map((slot) => slot.colour);
  expect(new Set(colours).size).toBe(SLOTS);
  const reversed = slots([...names].reverse()).map((slot) => slot.colour);
  expect(reversed.reverse()).toEqual(colours);
});

test("the eleventh is hatched", () => {
  const found = slots(Array.from({ length: 12 }, (_, index) => `s${index}`));
  expect(found.filter((slot) => slot.isHatched)).toHaveLength(2);
});
