/** Round moments for a ruler. */

export function ticks(from: number, to: number, most: number): number[] {
  const width = to - from;
  if (!(width > 0) || most < 1) return [];
  const rough = width / most;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((one) => one >= rough) ?? rough;
  const found: number[] = [];
  for (let tick = Math.ceil(from / step) * step; tick <= to && found.length <= most + 1; tick += step)
    found.push(tick);
  return found;
}
