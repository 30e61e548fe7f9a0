/** Dark, light, or as the system says. */

import { signal } from "@preact/signals";

export type Theme = "auto" | "dark" | "light";

const KEY = "muster.theme";
const NEXT: Record<Theme, Theme> = { auto: "dark", dark: "light", light: "auto" };
const system = matchMedia("(prefers-color-scheme: dark)");

export const theme = signal<Theme>(stored());
/** Which one is shown now; canvases read their colours anew when it changes. */
export const shownTheme = signal<"dark" | "light">("dark");

export function followTheme(): void {
  system.addEventListener("change", show);
  show();
}

export function nextTheme(): void {
  theme.value = NEXT[theme.peek()];
  localStorage.setItem(KEY, theme.peek());
  show();
}

function show(): void {
  const wanted = theme.peek();
  const shown = wanted === "auto" ? (system.matches ? "dark" : "light") : wanted;
  document.documentElement.dataset["theme"] = shown;
  shownTheme.value = shown;
}

function stored(): Theme {
  const kept = localStorage.getItem(KEY);
  return kept === "dark" || kept === "light" ? kept : "auto";
}
