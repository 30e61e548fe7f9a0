/** Where the person is: path and query as signals, so that a page's state stands in its address and can be shared. */

import { computed, signal } from "@preact/signals";

export interface Place {
  path: string;
  query: URLSearchParams;
}

const here = signal(location.pathname + location.search);

export const path = computed(() => split(here.value).path);
export const query = computed(() => split(here.value).query);

function split(address: string): Place {
  const at = address.indexOf("?");
  return at < 0
    ? { path: address, query: new URLSearchParams() }
    : { path: address.slice(0, at), query: new URLSearchParams(address.slice(at)) };
}

/** Go to an address of this site. replace: no new entry in the history, for what changes with every keystroke. */
export function navigate(to: string, { replace = false }: { replace?: boolean } = {}): void {
  if (to === here.peek()) {
    return;
  }
  history[replace ? "replaceState" : "pushState"](null, "", to);
  const moved = split(to).path !== path.peek();
  here.value = to;
  if (moved) {
    window.scrollTo(0, 0);
  }
}

/** Change some parameters of the query; "" or null takes one away. Others stay. */
export function setQuery(changes: Record<string, string | null>, { replace = true }: { replace?: boolean } = {}): void {
  const wanted = new URLSearchParams(query.peek());
  for (const [name, value] of Object.entries(changes)) {
    if (value) {
      wanted.set(name, value);
    } else {
      wanted.delete(name);
    }
  }
  const text = wanted.toString();
  navigate(path.peek() + (text && `?${text}`), { replace });
}

/** Follow the browser's own buttons, and links of this site without loading the page anew. */
export function followAddress(): void {
  addEventListener("popstate", () => {
    here.value = location.pathname + location.search;
  });
  document.addEventListener("click", (event) => {
    const link = event.target instanceof Element ? event.target.closest("a[href]") : null;
    if (!(link instanceof HTMLAnchorElement) || !staysHere(event, link)) {
      return;
    }
    event.preventDefault();
    navigate(link.pathname + link.search);
  });
}

/** Paths that the gateway answers itself, not with this page. */
const SERVED = /^\/(v1|docs|openapi\.json|metrics|healthz|readyz)(\/|$)/;

function staysHere(event: MouseEvent, link: HTMLAnchorElement): boolean {
  const plain = event.button === 0 && !event.ctrlKey && !event.metaKey && !event.shiftKey && !event.altKey;
  const inPage = link.pathname === location.pathname && link.hash !== "";
  return (
    plain &&
    !event.defaultPrevented &&
    link.origin === location.origin &&
    !link.target &&
    !link.hasAttribute("download") &&
    !inPage &&
    !SERVED.test(link.pathname)
  );
}
