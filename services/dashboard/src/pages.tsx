/** Which page belongs to a path. Each is loaded when it is first opened. */

import type { ComponentType } from "preact";

export interface Nav {
  path: string;
  title: string;
  /** After `g`. */
  key: string;
  icon: string;
}

/** In the order of the navigation. icon: drawn in a square of 24. */
export const NAVIGATION: readonly Nav[] = [
  {
    path: "/fleet",
    title: "Fleet",
    key: "f",
    icon: "M4 4h4v4H4zM10 4h4v4h-4zM16 4h4v4h-4zM4 10h4v4H4zM10 10h4v4h-4zM16 10h4v4h-4zM4 16h4v4H4zM10 16h4v4h-4z",
  },
  { path: "/queues", title: "Queues", key: "q", icon: "M4 5h16v3H4zM4 10.5h11v3H4zM4 16h7v3H4z" },
  {
    path: "/jobs",
    title: "Jobs",
    key: "j",
    icon: "M4 5h3v3H4zM9 5h11v3H9zM4 10.5h3v3H4zM9 10.5h11v3H9zM4 16h3v3H4zM9 16h11v3H9z",
  },
  { path: "/use", title: "Use", key: "u", icon: "M4 19V5h2v12h14v2zM8 15l3.5-5 3 3L19 6l1.6 1.2-6 8.3-3-3L9.6 16z" },
  { path: "/health", title: "Health", key: "h", icon: "M3 11h4l2.5-6 4 12 2.5-6h5v2h-3.6l-4 8.5-3.9-11.6L8.4 13H3z" },
  { path: "/campaigns", title: "Campaigns", key: "m", icon: "M12 3l6 6h-4v5h-4V9H6zM4 16h3v3h10v-3h3v5H4z" },
  { path: "/scale", title: "Scale", key: "s", icon: "M4 20V14h3v6zM10 20V10h3v10zM16 20V4h3v16z" },
  {
    path: "/clusters",
    title: "Clusters",
    key: "c",
    icon: "M12 3l8 4.5v9L12 21l-8-4.5v-9zM12 5.8L6.8 8.7 12 11.6l5.2-2.9zM6 10.3v5l5 2.8v-5zM18 10.3l-5 2.8v5l5-2.8z",
  },
  {
    path: "/apiserver",
    title: "API server",
    key: "a",
    icon: "M4 4h16v4H4zM4 10h16v4H4zM4 16h16v4H4zM6 5.5h2v1H6zM6 11.5h2v1H6zM6 17.5h2v1H6z",
  },
  {
    path: "/events",
    title: "Events",
    key: "e",
    icon: "M12 4a8 8 0 1 0 8 8h-2.5A5.5 5.5 0 1 1 12 6.5zM11 8h2v4.2l3 3-1.4 1.4L11 13z",
  },
];

type Loaded = { default: ComponentType<{ id: string }> | ComponentType };
type Load = () => Promise<Loaded>;

const PAGES: [pattern: RegExp, load: Load][] = [
  [/^\/(?:fleet)?$/, () => import("./pages/fleet")],
  [/^\/queues$/, () => import("./pages/queues")],
  [/^\/jobs$/, () => import("./pages/jobs")],
  [/^\/jobs\/([A-Z2-7]{26})$/, () => import("./pages/job")],
  [/^\/use$/, () => import("./pages/use")],
  [/^\/health$/, () => import("./pages/health")],
  [/^\/campaigns$/, () => import("./pages/campaigns")],
  [/^\/scale$/, () => import("./pages/scale")],
  [/^\/clusters$/, () => import("./pages/clusters")],
  [/^\/apiserver$/, () => import("./pages/apiserver")],
  [/^\/events$/, () => import("./pages/events")],
];

/**
 * How to load the page of a path, and the id that the path names; null where there is no such page.
 *
 * An id is taken only in its own form: pages put it into addresses of the API.
 */
export function pageOf(path: string): { load: Load; id: string } | null {
  for (const [pattern, load] of PAGES) {
    const found = pattern.exec(path);
    if (found) {
      return { load, id: found[1] ?? "" };
    }
  }
  return null;
}

/** Whether the navigation's entry is where the person is. */
export function isWithin(nav: Nav, path: string): boolean {
  return path === nav.path || path.startsWith(`${nav.path}/`) || (path === "/" && nav.path === "/fleet");
}
