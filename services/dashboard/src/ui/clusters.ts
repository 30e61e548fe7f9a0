/** Which cluster's services a page asks. The gateway asks its first one if none is named. Pure. */

/** The path with the cluster in its query; as it is for the gateway's first. */
export function ofCluster(path: string, cluster: string): string {
  if (!cluster || !path) {
    return path;
  }
  return `${path}${path.includes("?") ? "&" : "?"}cluster=${encodeURIComponent(cluster)}`;
}

/** What can be chosen; nothing where there is only one, unless the address names one that is not there. */
export function choicesOf(names: readonly string[], chosen: string): readonly string[] {
  const all = chosen && !names.includes(chosen) ? [...names, chosen] : names;
  return all.length > 1 ? all : [];
}
