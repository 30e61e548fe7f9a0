import { store } from "../live/store";
import { choicesOf, ofCluster } from "./clusters";
import { useQueryParams } from "./query";

interface Chosen {
  /** As the address says it; "" is the gateway's first. */
  cluster: string;
  /** The path of a question with the cluster in it. */
  asked: (path: string) => string;
}

/** The cluster that the page's address names. */
export function useCluster(): Chosen {
  const [{ cluster }] = useQueryParams({ cluster: "" });
  return { cluster, asked: (path) => ofCluster(path, cluster) };
}

interface ChoiceProps {
  /** Parameters of the address that mean something in one cluster only: a node, say. */
  clears?: readonly string[];
  /** Says what "no cluster in the address" means; without it that is the gateway's first. */
  all?: string;
}

/** Whose services the page asks; nothing where there is only one cluster. */
export function ClusterChoice({ clears = [], all }: ChoiceProps) {
  const [{ cluster }, setParams] = useQueryParams<Record<string, string>>({
    cluster: "",
    ...Object.fromEntries(clears.map((name) => [name, ""])),
  });
  const names = store.clusters.value;
  const choices = choicesOf(names, cluster ?? "");
  if (choices.length === 0) {
    return null;
  }
  const first = all === undefined ? (names[0] ?? "") : "";
  return (
    <select
      aria-label="Cluster"
      value={cluster || first}
      onChange={(event) => {
        const chosen = event.currentTarget.value;
        setParams({
          ...Object.fromEntries(clears.map((name) => [name, ""])),
          cluster: chosen === first ? "" : chosen,
        });
      }}
    >
      {all !== undefined && <option value="">{all}</option>}
      {choices.map((name) => (
        <option key={name} value={name}>
          {name}
        </option>
      ))}
    </select>
  );
}
