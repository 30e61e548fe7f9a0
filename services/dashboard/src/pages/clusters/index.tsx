import { Badge, Bar, Broken, Empty, format, Page, Pairs, Panel, useFetched, Waiting } from "../../ui";
import type { ClusterView } from "../../wire_apiserver";
import "./style.css";
import { deviceWords, sharingWords, toneOf } from "./words";

const EVERY_MS = 5_000;

/** Every cluster of the fleet: what it is, what it can do, how full it is. */
export default function Clusters() {
  const { value, problem, again } = useFetched<{ clusters: ClusterView[] }>("/v1/clusters", { everyMs: EVERY_MS });
  const clusters = value?.clusters ?? [];
  return (
    <Page title="Clusters" note={value && (clusters.length === 1 ? "1 cluster" : `${clusters.length} clusters`)}>
      {problem && !value ? (
        <Panel>
          <Broken problem={problem} retry={again} />
        </Panel>
      ) : !value ? (
        <Waiting what="Asking for the clusters" />
      ) : !clusters.length ? (
        <Panel>
          <Empty title="No cluster has said anything yet" />
        </Panel>
      ) : (
        <div class="clusters">
          {clusters.map((cluster) => (
            <Cluster key={cluster.name} cluster={cluster} />
          ))}
        </div>
      )}
    </Page>
  );
}

function Cluster({ cluster }: { cluster: ClusterView }) {
  const used = cluster.gpu_milli_total - cluster.gpu_milli_free;
  const isReal = cluster.backend === "kubernetes";
  return (
    <Panel
      title={cluster.name}
      note={isReal ? `Kubernetes ${cluster.version}` : "simulated"}
      actions={<Badge tone={toneOf(cluster.state)}>{cluster.state}</Badge>}
    >
      <Bar
        label={`GPUs of ${cluster.name}`}
        max={cluster.gpu_milli_total}
        parts={[
          { value: used, label: `${format.gpus(used)} used`, tone: "used" },
          { value: cluster.gpu_milli_free, label: `${format.gpus(cluster.gpu_milli_free)} free`, tone: "free" },
        ]}
      />
      <Pairs
        pairs={[
          ["GPUs", `${format.gpus(used)} of ${format.gpus(cluster.gpu_milli_total)} used`],
          ["Nodes", String(cluster.nodes)],
          ["Jobs", `${cluster.jobs_running} running, ${cluster.jobs_queued} waiting`],
          ["GPUs are picked by", deviceWords(cluster.devices)],
          ["Parts of a GPU", sharingWords(cluster.sharing)],
        ]}
      />
      {cluster.lacking.map((one) => (
        <p key={one} class="note note-warn">
          {one}
        </p>
      ))}
      {isReal && <a href="/apiserver">API server</a>}
    </Panel>
  );
}
