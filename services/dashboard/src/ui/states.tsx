import type { ComponentChildren } from "preact";
import type { ApiProblem } from "../api";

/** There is nothing to show, and why; children: what to do about it. */
export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="state">
      <p class="state-title">{title}</p>
      {children !== undefined && <div class="state-text">{children}</div>}
    </div>
  );
}

/** Something went wrong, in the gateway's words. */
export function Broken({ problem, retry }: { problem: ApiProblem; retry?: () => void }) {
  return (
    <div class="state state-broken" role="alert">
      <p class="state-title">{problem.title}</p>
      <div class="state-text">
        {problem.detail && <p>{problem.detail}</p>}
        {problem.field && (
          <p>
            Field: <code>{problem.field}</code>
          </p>
        )}
        {problem.cure && <p>{problem.cure}</p>}
      </div>
      {retry && (
        <button type="button" class="button" onClick={retry}>
          Try again
        </button>
      )}
    </div>
  );
}

/** What is on its way. */
export function Waiting({ what = "Loading" }: { what?: string }) {
  return (
    <div class="state" role="status">
      <span class="spinner" aria-hidden="true" />
      <p class="state-title">{what} …</p>
    </div>
  );
}
