/** Whose token this browser has. It lives in this tab, or in this browser if the person asked to be remembered. */

import { signal } from "@preact/signals";

const KEY = "muster.token";

/** The API token, "" when nobody is logged in. */
export const token = signal(stored());
/** Why there is no token any more, in words; "" if there is nothing to say. */
export const loggedOutBecause = signal("");

/** A token that a link brought while another one is in use, until the person decides; "" if there is none. */
export const offeredToken = signal("");

/**
 * Take the token out of `#token=…`, where `muster dashboard` puts it, so that it stays in no history. It replaces no
 * session by itself: whoever made the link would choose as whom this person acts, and what they see.
 */
export function takeTokenFromAddress(): void {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (!given) {
    return;
  }
  history.replaceState(history.state, "", location.pathname + location.search);
  if (!token.peek()) {
    logIn(given, { remember: false });
  } else if (given !== token.peek()) {
    offeredToken.value = given;
  }
}

export function logIn(given: string, { remember }: { remember: boolean }): void {
  sessionStorage.setItem(KEY, given);
  if (remember) {
    localStorage.setItem(KEY, given);
  }
  loggedOutBecause.value = "";
  token.value = given;
}

export function logOut(because = ""): void {
  sessionStorage.removeItem(KEY);
  localStorage.removeItem(KEY);
  loggedOutBecause.value = because;
  token.value = "";
}

function stored(): string {
  return sessionStorage.getItem(KEY) ?? localStorage.getItem(KEY) ?? "";
}
