import { Answered, Badge, Bar, Empty, format, Page, Pairs, Panel, useFetched } from "../../ui";
import type { ClusterView, FederationView, MemberView, RoutesView } from "../../wire";
import { Actions } from "./actions";
import { type Seen, seenClusters, stateWords } from "./federation";
import "./style.css";
import { Limits, Rules, WaitingJobs } from "./tables";
import { deviceWords, sharingWords, toneOf } from "./words";

const EVERY_MS = 5_000;

/** Every cluster of the fleet: what it is, what it can do, how full it is, whether it gets jobs; and where jobs go. */
export default function Clusters() {
  const clusters = useFetched<{ clusters: ClusterView[] }>("/v1/clusters", { everyMs: EVERY_MS });
  const federation = useFetched<FederationView>("/v1/federation", { everyMs: EVERY_MS });
  const seen = seenClusters(clusters.value?.clusters ?? [], federation.value);
  const names = seen.map((one) => one.name);
  return (
    <Page title="Clusters" note={clusters.value && format.many(seen.length, "cluster")}>
      <Answered of={clusters} what="Loading the clusters">
        {() =>
          seen.length ? (
            <div class="clusters">
              {seen.map((one) => (
                <Cluster
                  key={one.name}
                  seen={one}
                  others={names.filter((name) => name !== one.name)}
                  onChange={federation.again}
                />
              ))}
            </div>
          ) : (
            <Panel>
              <Empty title="No cluster has reported yet" />
            </Panel>
          )
        }
      </Answered>
      <Answered of={federation} what="Loading the federation">
        {({ waiting }) => (
          <Panel title="Waiting for a cluster" flush>
            <WaitingJobs lanes={waiting} />
          </Panel>
        )}
      </Answered>
      <Routes />
    </Page>
  );
}

function Routes() {
  const routes = useFetched<RoutesView>("/v1/routes", { everyMs: EVERY_MS });
  return (
    <Answered of={routes} what="Loading the routing rules">
      {({ policy, version, by }) => (
        <div class="clusters-two">
          <Panel title="Routing rules" note={version ? `version ${version}, by ${by}` : "from the settings"} flush>
            <Rules rules={policy.rules} />
          </Panel>
          <Panel title="Limits over all clusters" flush>
            <Limits limits={policy.teams} />
          </Panel>
        </div>
      )}
    </Answered>
  );
}

interface ClusterProps {
  seen: Seen;
  others: string[];
  onChange: () => void;
}

function Cluster({ seen: { name, state, cluster, member }, others, onChange }: ClusterProps) {
  const isReal = cluster?.backend === "kubernetes";
  const why = member ? stateWords(member) : "";
  return (
    <Panel
      title={name}
      note={cluster ? backendWords(cluster) : "does not answer"}
      actions={
        <>
          <Badge tone={toneOf(state)}>{state}</Badge>
          {member && <Actions member={member} others={others} onChange={onChange} />}
        </>
      }
    >
      {why && <p class={state === "lost" ? "note note-bad" : "note note-warn"}>{why}</p>}
      <Fill name={name} cluster={cluster} member={member} />
      {member && <Routed member={member} />}
      {cluster?.lacking.map((one) => (
        <p key={one} class="note note-warn">
          {one}
        </p>
      ))}
      {isReal && <a href={`/apiserver?cluster=${encodeURIComponent(name)}`}>API server</a>}
    </Panel>
  );
}

function backendWords({ backend, version }: ClusterView): string {
  return backend === "kubernetes" ? `Kubernetes ${version}` : backend === "unknown" ? "does not answer" : backend;
}

/** How full it is: as its scheduler says, or as the federation heard last of one that does not answer. */
function Fill({ name, cluster: told, member }: Pick<Seen, "name" | "cluster" | "member">) {
  const cluster = told && told.backend !== "unknown" ? told : null;
  const total = cluster?.gpu_milli_total ?? (member?.gpus_total ?? 0) * 1000;
  const free = cluster?.gpu_milli_free ?? (member?.gpus_free ?? 0) * 1000;
  const used = total - free;
  const { nodes, jobs_running, jobs_queued } = cluster ?? member ?? { nodes: 0, jobs_running: 0, jobs_queued: 0 };
  return (
    <>
      <Bar
        label={`GPUs of ${name}`}
        max={total}
        parts={[
          { value: used, label: `${format.gpus(used)} held or drained`, tone: "used" },
          { value: free, label: `${format.gpus(free)} free`, tone: "free" },
        ]}
      />
      <Pairs
        pairs={[
          ["GPUs", `${format.gpus(free)} of ${format.gpus(total)} free`],
          ["Nodes", String(nodes)],
          ["Jobs", `${jobs_running} running, ${jobs_queued} waiting`],
          ...(cluster
            ? ([
                ["GPUs are chosen by", deviceWords(cluster.devices)],
                ["Parts of a GPU", sharingWords(cluster.sharing)],
              ] as [string, string][])
            : []),
        ]}
      />
    </>
  );
}

/** What the federation gave it, and how near it is to being given up. */
function Routed({ member }: { member: MemberView }) {
  const { jobs, gpus, heard_at, gives_up_at, lost_after_s, state } = member;
  const silent = gives_up_at && state !== "lost" ? `, given up ${format.relative(gives_up_at)}` : "";
  return (
    <Pairs
      pairs={[
        ["Routed here", `${format.many(jobs, "job")}, ${format.many(gpus, "GPU")}`],
        ...(heard_at || lost_after_s
          ? ([["Heard last", heard_at ? `${format.relative(heard_at)}${silent}` : "not yet"]] as [string, string][])
          : []),
        ["Given up after", lost_after_s ? `${format.duration(lost_after_s)} of silence` : "never; no limit is set"],
      ]}
    />
  );
}
