/** The chosen theme: system, light or dark. */
import { forgetTheme } from "../draw/theme";

export type Choice = "system" | "light" | "dark";
const KEY = "qualitytrace.theme";
const dark = matchMedia("(prefers-color-scheme: dark)");
const listeners = new Set<() => void>();

export function chosenTheme(): Choice {
  const stored = localStorage.getItem(KEY);
  return stored === "light" || stored === "dark" ? stored : "system";
}

export function chooseTheme(choice: Choice): void {
  if (choice === "system") localStorage.removeItem(KEY);
  else localStorage.setItem(KEY, choice);
  applyTheme();
}

export function applyTheme(): void {
  const choice = chosenTheme();
  const isDark = choice === "dark" || (choice === "system" && dark.matches);
  document.documentElement.dataset.theme = isDark ? "dark" : "light";
  forgetTheme();
  for (const listener of listeners) listener();
}

/** Tells when the colours change. */
export function onThemeChange(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

dark.addEventListener("change", applyTheme);
