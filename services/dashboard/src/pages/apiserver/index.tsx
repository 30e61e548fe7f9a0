import { Broken, ClusterChoice, Empty, format, Page, Panel, useCluster, useFetched, Waiting } from "../../ui";
import type { ApiServerReport } from "../../wire";
import { Advices } from "./advices";
import { MemoryPicture } from "./memory_picture";
import "./style.css";
import { Kinds, Levels, Listers, Replicas } from "./tables";

const EVERY_MS = 5_000;

/** Memory of each API server, who lists, flow control, and what the guard advises. */
export default function ApiServer() {
  const { asked } = useCluster();
  const { value, problem, again } = useFetched<ApiServerReport>(asked("/v1/apiserver"), { everyMs: EVERY_MS });
  return (
    <Page title="API server" note={value?.guarded ? noteOf(value) : undefined} actions={<ClusterChoice />}>
      {problem && !value ? (
        <Panel>
          <Broken problem={problem} retry={again} />
        </Panel>
      ) : !value ? (
        <Waiting what="Loading the report of the guard" />
      ) : !value.guarded ? (
        <Panel>
          <Empty title="No API server is monitored">
            <p>The guard watches clusters of Kubernetes; this cluster is simulated, or its guard is switched off.</p>
          </Empty>
        </Panel>
      ) : (
        <Report report={value} />
      )}
    </Page>
  );
}

function noteOf(report: ApiServerReport): string {
  const count = report.replicas.length === 1 ? "1 replica" : `${report.replicas.length} replicas`;
  const skew = report.memory_skew > 1 ? `, largest memory ${report.memory_skew.toFixed(1)} times the smallest` : "";
  return `${count}${skew}, seen ${format.instant(report.at)}`;
}

function Report({ report }: { report: ApiServerReport }) {
  return (
    <div class="apiserver">
      {report.lacking.map((one) => (
        <p key={one} class="note note-warn">
          {one}
        </p>
      ))}
      <Advices advices={report.advices} />
      <Panel title="Memory" flush>
        <MemoryPicture replicas={report.replicas} />
        <Replicas replicas={report.replicas} />
      </Panel>
      <Panel title="Flow control" note={report.applies ? "corrected by the guard" : "monitored only"} flush>
        <Levels levels={report.levels} />
      </Panel>
      <div class="apiserver-two">
        <Panel title="LISTs by client" flush>
          <Listers listers={report.listers} />
        </Panel>
        <Panel title="Stored objects" flush>
          <Kinds kinds={report.kinds} />
        </Panel>
      </div>
    </div>
  );
}
