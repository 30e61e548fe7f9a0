/** The present moment for what is told relative to it: steps once a second, and not while nobody looks. */

import { useEffect, useState } from "preact/hooks";

const STEP_MS = 1_000;
const NS_PER_MS = 1e6;

/** Now in nanoseconds; whoever uses it is drawn anew every `everyMs`. */
export function useNowNs(everyMs = STEP_MS): number {
  const [nowNs, setNowNs] = useState(() => Date.now() * NS_PER_MS);
  useEffect(() => {
    const timer = setInterval(() => {
      if (!document.hidden) setNowNs(Date.now() * NS_PER_MS);
    }, everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);
  return nowNs;
}

/** Whether the screen is as narrow as a phone's; drawn anew when that changes. */
export function useIsNarrow(): boolean {
  const [isNarrow, setIsNarrow] = useState(() => matchMedia(NARROW).matches);
  useEffect(() => {
    const media = matchMedia(NARROW);
    const changed = () => setIsNarrow(media.matches);
    media.addEventListener("change", changed);
    return () => media.removeEventListener("change", changed);
  }, []);
  return isNarrow;
}

const NARROW = "(max-width: 640px)";
