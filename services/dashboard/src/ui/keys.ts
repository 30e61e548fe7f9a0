/** Keys that do something on this page, one place for all, so that `?` can list them. */

import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";

export interface Hotkey {
  /** One key, or two after another: "g f". Names as in KeyboardEvent.key. */
  keys: string;
  does: string;
  run: (event: KeyboardEvent) => void;
}

const SECOND_KEY_MS_MAX = 1_200;

/** All that work now, in the order of their registration. */
export const hotkeys = signal<readonly Hotkey[]>([]);

let first = "";
let firstAtMs = 0;

/** Make a key work while the component is there. */
export function useHotkey(keys: string, does: string, run: (event: KeyboardEvent) => void): void {
  const newest = useRef(run);
  newest.current = run;
  useEffect(() => {
    const hotkey: Hotkey = { keys, does, run: (event) => newest.current(event) };
    hotkeys.value = [...hotkeys.peek(), hotkey];
    return () => {
      hotkeys.value = hotkeys.peek().filter((other) => other !== hotkey);
    };
  }, [keys, does]);
}

/** Begin to listen. Typing into a field is never a hotkey, but for Escape. */
export function followKeys(): void {
  addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || isTyping(event)) {
      return;
    }
    const both = event.timeStamp - firstAtMs < SECOND_KEY_MS_MAX ? `${first} ${event.key}` : "";
    const found = find(both) ?? find(event.key);
    first = event.key;
    firstAtMs = event.timeStamp;
    if (found) {
      first = "";
      event.preventDefault();
      found.run(event);
    }
  });
}

/** The newest registration wins: a page's own key comes before the frame's. */
function find(keys: string): Hotkey | undefined {
  return keys ? hotkeys.peek().findLast((hotkey) => hotkey.keys === keys) : undefined;
}

function isTyping(event: KeyboardEvent): boolean {
  const at = event.target;
  if (!(at instanceof HTMLElement) || event.key === "Escape") {
    return false;
  }
  return at.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(at.tagName) || at.closest("dialog") !== null;
}
