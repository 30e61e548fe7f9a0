import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";

interface PageProps {
  title: string;
  /** Beside the title: how many, since when. */
  note?: ComponentChildren;
  /** Buttons and filters at the right. */
  actions?: ComponentChildren;
  /** Takes the whole height and scrolls inside. */
  fill?: boolean;
  children: ComponentChildren;
}

/** A page's heading and body. */
export function Page({ title, note, actions, fill = false, children }: PageProps) {
  useEffect(() => {
    document.title = `${title} · Muster`;
  }, [title]);
  return (
    <div class={fill ? "page page-fill" : "page"}>
      <header class="page-head">
        <h1 tabIndex={-1}>{title}</h1>
        {note !== undefined && <p class="page-note">{note}</p>}
        {actions !== undefined && <div class="page-actions">{actions}</div>}
      </header>
      {children}
    </div>
  );
}

interface PanelProps {
  title?: string;
  note?: ComponentChildren;
  actions?: ComponentChildren;
  /** No space around the content: for tables. */
  flush?: boolean;
  class?: string;
  children: ComponentChildren;
}

/** A bordered part of a page. With a title it is a landmark of that name. */
export function Panel({ title, note, actions, flush = false, class: more = "", children }: PanelProps) {
  const head = title !== undefined || actions !== undefined;
  return (
    <section class={`panel ${flush ? "panel-flush" : ""} ${more}`} aria-label={title}>
      {head && (
        <header class="panel-head">
          {title !== undefined && <h2>{title}</h2>}
          {note !== undefined && <span class="muted">{note}</span>}
          {actions !== undefined && <div class="panel-actions">{actions}</div>}
        </header>
      )}
      <div class="panel-body">{children}</div>
    </section>
  );
}

/** Pairs of a name and a value. */
export function Pairs({ pairs }: { pairs: [name: string, value: ComponentChildren][] }) {
  return (
    <dl class="pairs">
      {pairs.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}
