import { store } from "../../live/store";
import { Badge, Empty, Panel } from "../../ui";
import type { ReservationView } from "../../wire";
import { useNowNs } from "../jobs/clock";
import { counted, gpus, long, nodeList, when } from "../jobs/words";

/** Advance reservations: what is kept, for whom, from when on. */
export function ReservationsPanel() {
  const nowNs = useNowNs(10_000);
  void store.version.reservations.value;
  const all = [...store.reservations.values()].sort((one, two) => startOf(one) - startOf(two));
  return (
    <Panel title="Reservations" note={all.length ? counted(all.length, "reservation") : undefined}>
      {all.length === 0 ? (
        <Empty title="No reservations">
          <code>muster reserve</code> keeps nodes or GPUs for a queue, a job or maintenance.
        </Empty>
      ) : (
        <ul class="reservations">
          {all.map((one) => (
            <li key={one.name}>
              <p>
                <b>{one.name}</b>{" "}
                {one.active ? <Badge tone="info">kept now</Badge> : <Badge tone="neutral">to come</Badge>}
              </p>
              <p>
                {whatOf(one)} {forWhom(one)}
              </p>
              <p class="muted">
                {one.active ? `since ${when(one.spec.starts_at, nowNs)}` : `from ${when(startOf(one), nowNs)}`}, for{" "}
                {long(one.spec.duration_s)}
                {one.spec.repeat === "weekly" ? ", every week" : ""}
                {one.active && one.held_gpu_milli ? `; ${gpus(one.held_gpu_milli)} GPUs of it are free` : ""}
                {one.spec.reason && ` · ${one.spec.reason}`}
              </p>
            </li>
          ))}
        </ul>
      )}
    </Panel>
  );
}

function startOf(one: ReservationView): number {
  return one.next_starts_at || one.spec.starts_at;
}

function whatOf({ spec }: ReservationView): string {
  return spec.nodes.length ? nodeList(spec.nodes) : `${spec.gpus} ${spec.gpu_model || ""} GPUs`.replace("  ", " ");
}

function forWhom({ spec }: ReservationView) {
  if (spec.queue) return <>for queue {spec.queue}</>;
  if (spec.job_id) {
    return (
      <>
        for job <a href={`/jobs/${spec.job_id}`}>{spec.job_id.slice(0, 8)}</a>
      </>
    );
  }
  return <>for maintenance</>;
}
